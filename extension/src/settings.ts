// The seven options of a person, in a file of their own. Reading them never changes the file.

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Native } from "./native.ts";

/** Where the options are kept. */
export function settingsPath(): string {
  return join(process.env["XDG_CONFIG_HOME"] || join(homedir(), ".config"), "pi-fold", "settings.json");
}

/** The options in force as JSON text, and what is wrong with the file, one sentence each. */
export async function readSettings(native: Native, given: object | undefined): Promise<{ text: string; refused: string[] }> {
  const path = settingsPath();
  let text: string;
  if (given) {
    text = JSON.stringify(given);
  } else {
    try {
      text = readFileSync(path, "utf8");
    } catch (error) {
      const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
      return { text: "{}", refused: missing ? [] : [`${path}: ${(error as Error).message}`] };
    }
  }
  const refused = JSON.parse(await native.refusedSettings(text)) as string[];
  if (refused.length === 0) return { text, refused };
  // A whole file counts or none of it: half of what a person meant is not what they meant.
  return { text: "{}", refused: refused.map((why) => `${given ? "the options in code" : path}: ${why}`) };
}
