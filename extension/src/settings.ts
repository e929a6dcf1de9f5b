// The seven options of a person, in a file of their own. Reading them never changes the file; writing them changes it whole or not at all.

import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, readlinkSync, realpathSync, renameSync, rmSync, writeSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
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
    try {
      text = JSON.stringify(given) ?? String(given);
    } catch (error) {
      return { text: "{}", refused: [`the options in code are no JSON: ${(error as Error).message}`] };
    }
  } else {
    try {
      // Some editors put a mark before the text; an empty file sets nothing.
      text = readFileSync(path, "utf8").replace(/^\ufeff/, "");
      if (text.trim() === "") text = "{}";
    } catch (error) {
      const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
      return { text: "{}", refused: missing ? [] : [`${path}: ${(error as Error).message}. The file is left as it is`] };
    }
  }
  const refused = JSON.parse(await native.refusedSettings(text)) as [line: number, why: string][];
  if (refused.length === 0) return { text, refused: [] };
  // A whole file counts or none of it: half of what a person meant is not what they meant.
  const told = ([line, why]: [number, string]) => (given ? `the options in code: ${why}` : `${path}, line ${line}: ${why}. The file is left as it is`);
  return { text: "{}", refused: refused.map(told) };
}

/** Where a link leads, so that it stays a link when the file is written; also one that leads to nothing yet. */
function followed(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    try {
      return resolve(dirname(path), readlinkSync(path));
    } catch {
      return path;
    }
  }
}

/** Writes the options for every session to come; a crash leaves the file as it was, or as it is to be. */
export function saveSettings(text: string): void {
  const path = followed(settingsPath());
  mkdirSync(dirname(path), { recursive: true });
  const fresh = `${path}.${process.pid}.tmp`;
  try {
    const file = openSync(fresh, "w", 0o600);
    try {
      writeSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
}
