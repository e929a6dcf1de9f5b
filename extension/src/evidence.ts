// Full outputs that tools parked in temporary files are copied beside the session, before somebody clears them away: the journal holds only
// what went into the window.

import { createHash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { chmod, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import type { ExtensionContext, SessionBoundaryDraft, TurnEndEvent } from "./pi.ts";

/** Custom entries that say what was copied, and what was not. */
export const EVIDENCE = "pi-fold.evidence";
/** What the copies of one session may take together, in bytes. */
export const CAP = 512 * 1024 * 1024;
/** Where tools say that they parked an output. */
const FIELDS = ["fullOutputPath", "outputPath", "outputFile"];

export class Evidence {
  readonly #cap: number;
  /** What the copies of a session take, counted once and kept. */
  #taken: { folder: string; bytes: number } | undefined;

  constructor(cap = CAP) {
    this.#cap = cap;
  }

  /** Copies what the results of a turn name; entries that say so, and what a person is to be told. */
  async keep(event: TurnEndEvent, ctx: ExtensionContext): Promise<{ drafts: SessionBoundaryDraft[]; warnings: string[] }> {
    const kept = { drafts: [] as SessionBoundaryDraft[], warnings: [] as string[] };
    const session = ctx.sessionManager.getSessionFile();
    if (!session) return kept;
    const folder = join(dirname(session), "pi-fold-evidence", ctx.sessionManager.getSessionId());
    for (const result of event.toolResults) {
      for (const from of parked(result.details)) {
        const about = { call: result.toolCallId, tool: result.toolName, from };
        let data: object;
        try {
          data = { ...about, ...(await this.#copy(from, folder)) };
        } catch (error) {
          const why = error instanceof Error ? error.message : String(error);
          kept.warnings.push(`The full output of ${result.toolName}, ${from}, has no copy beside the session (${why}); folding goes on`);
          data = { ...about, refused: why };
        }
        kept.drafts.push({ type: "custom", customType: EVIDENCE, data });
      }
    }
    return kept;
  }

  async #copy(from: string, folder: string): Promise<{ sha256: string; bytes: number }> {
    if (this.#taken?.folder !== folder) this.#taken = { folder, bytes: await size(folder) };
    // What a link points at is nobody's output; a pipe would never end.
    const source = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const fresh = join(folder, `.${process.pid}-${Date.now()}.tmp`);
    try {
      const before = await source.stat();
      if (!before.isFile()) throw new Error("it is no regular file");
      if (this.#taken.bytes + before.size > this.#cap) throw new Error(`the copies of this session would take more than ${this.#cap} bytes`);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const target = await open(fresh, "wx", 0o600);
      const hash = createHash("sha256");
      let bytes = 0;
      try {
        for await (const chunk of source.createReadStream({ autoClose: false })) {
          hash.update(chunk);
          bytes += chunk.length;
          if (this.#taken.bytes + bytes > this.#cap) throw new Error("it grew over what the copies of this session may take");
          await target.writeFile(chunk);
        }
        await target.sync();
      } finally {
        await target.close();
      }
      const sha256 = hash.digest("hex");
      const path = join(folder, sha256);
      // What has this name already is taken for the same only if it is.
      if ((await digestOf(path)) !== sha256) {
        await chmod(fresh, 0o444);
        await rename(fresh, path);
        this.#taken.bytes += bytes;
      }
      return { sha256, bytes };
    } finally {
      await source.close();
      await rm(fresh, { force: true });
    }
  }
}

/** Absolute paths that the details of a result name. What only runs when it is asked for is no name. */
function parked(details: unknown): string[] {
  if (typeof details !== "object" || details === null) return [];
  const paths = FIELDS.map((field) => Object.getOwnPropertyDescriptor(details, field)?.value as unknown);
  return [...new Set(paths.filter((path): path is string => typeof path === "string" && isAbsolute(path)))];
}

/** The SHA-256 of what a copy holds; `undefined` where there is none, or none that can be read. */
async function digestOf(path: string): Promise<string | undefined> {
  try {
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(path)) hash.update(chunk);
    return hash.digest("hex");
  } catch {
    return undefined;
  }
}

async function size(folder: string): Promise<number> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch {
    return 0;
  }
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}
