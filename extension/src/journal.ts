// Pi's journal as the runtime reads it: lines, exactly as Pi writes them.

import { readFileSync } from "node:fs";
import type { ReadonlySessionManager, SessionEntry } from "./pi.ts";

/** Exact bytes of entries, one line each. */
export function lines(entries: readonly SessionEntry[]): Buffer {
  return Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
}

/**
 * A branch as its file has it. A tool may go on changing the details that it returned, which changes Pi's memory of old entries and never their lines; what
 * the file does not have yet is as it is.
 */
export function asWritten(branch: readonly SessionEntry[], file: string | undefined): SessionEntry[] {
  const written = new Map<string, SessionEntry>();
  try {
    for (const line of file ? readFileSync(file, "utf8").split("\n") : []) {
      if (line === "") continue;
      const entry = JSON.parse(line) as SessionEntry;
      if (typeof entry.id === "string") written.set(entry.id, entry);
    }
  } catch {
    // A file that cannot be read whole says nothing that memory does not say.
    return [...branch];
  }
  return branch.map((entry) => written.get(entry.id) ?? entry);
}

/** What the branch has grown by since `leaf` was its end; `undefined` where it is another branch. Costs what is new. */
export function grown(manager: ReadonlySessionManager, leaf: string | null): SessionEntry[] | undefined {
  const found: SessionEntry[] = [];
  let at = manager.getLeafEntry();
  while (at && at.id !== leaf) {
    found.push(at);
    at = at.parentId ? manager.getEntry(at.parentId) : undefined;
  }
  if (!at && leaf !== null) return undefined;
  return found.reverse();
}
