// Pi's journal as the runtime reads it: lines, exactly as Pi writes them.

import type { ReadonlySessionManager, SessionEntry } from "./pi.ts";

/** Exact bytes of entries, one line each. */
export function lines(entries: readonly SessionEntry[]): Buffer {
  return Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
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
