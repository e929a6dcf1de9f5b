// Full outputs in temporary files are copied beside the session; folds are offered to other extensions.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Evidence } from "../dist/evidence.js";
import { registerPiFold } from "../dist/index.js";
import { ai, answers, folder, open, records, steps } from "./world.mjs";

const sha = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** A turn whose results name these files, in a session of a folder. */
async function keep(evidence, path, ...files) {
  const toolResults = files.map((file, at) => ({ toolCallId: `c${at}`, toolName: "bash", details: { fullOutputPath: file } }));
  const sessionManager = { getSessionFile: () => join(path, "sessions/s.jsonl"), getSessionId: () => "s" };
  return evidence.keep({ toolResults, entries: [] }, { sessionManager });
}

test("what a tool parked in a file is beside the session, named by its digest, before the next request, and the journal says so", async () => {
  const path = folder();
  const full = join(path, "full.log");
  writeFileSync(full, "line\n".repeat(50_000));
  const parks = (extension) => extension.on("tool_result", () => ({ details: { fullOutputPath: full } }));
  const world = await open(path, { before: [parks] });
  answers(world, steps(2));
  await world.session.prompt("go");
  assert.deepEqual(world.errors, []);
  const digest = sha(readFileSync(full));
  const copy = join(path, "sessions/pi-fold-evidence", world.sessionManager.getSessionId(), digest);
  assert.equal(sha(readFileSync(copy)), digest);
  assert.equal(statSync(copy).mode & 0o777, 0o444);
  const told = world.sessionManager.getBranch().filter((entry) => entry.customType === "pi-fold.evidence").map((entry) => entry.data);
  assert.deepEqual(told.map((data) => [data.call, data.tool, data.sha256, data.bytes]), [["c0", "big", digest, 250_000], ["c1", "big", digest, 250_000]]);
  world.session.dispose();
});

test("the cap counts all copies of a session, also those of an earlier process; at the cap nothing is copied and it is said", async () => {
  const path = folder();
  const [one, two, three] = ["one", "two", "three"].map((name) => join(path, name));
  writeFileSync(one, Buffer.alloc(600, 1));
  writeFileSync(two, Buffer.alloc(600, 2));
  writeFileSync(three, Buffer.alloc(300, 3));
  const first = await keep(new Evidence(1_000), path, one, two);
  assert.deepEqual(first.drafts.map(({ data }) => data.bytes ?? data.refused.includes("1000 bytes")), [600, true]);
  assert.equal(first.warnings.length, 1);
  const later = new Evidence(1_000);
  const again = await keep(later, path, three, one, two);
  assert.deepEqual(again.drafts.map(({ data }) => data.bytes ?? false), [300, false, false], "what is over the cap is refused before it is read");
  assert.equal(readdirSync(join(path, "sessions/pi-fold-evidence/s")).length, 2, "no leftovers");
});

test("a copy that was damaged is made anew; one that is whole stays", async () => {
  const path = folder();
  const file = join(path, "file");
  writeFileSync(file, "exact");
  const copy = join(path, "sessions/pi-fold-evidence/s", sha("exact"));
  await keep(new Evidence(), path, file);
  const { ino } = statSync(copy);
  await keep(new Evidence(), path, file);
  assert.equal(statSync(copy).ino, ino);
  chmodSync(copy, 0o600);
  writeFileSync(copy, "exacT");
  const again = await keep(new Evidence(), path, file);
  assert.equal(readFileSync(copy, "utf8"), "exact");
  assert.deepEqual([again.warnings, readdirSync(join(path, "sessions/pi-fold-evidence/s"))], [[], [sha("exact")]]);
});

test("details that would run something when they are looked at are not looked at", async () => {
  const path = folder();
  const details = { get fullOutputPath() { throw new Error("looked at"); } };
  const sessionManager = { getSessionFile: () => join(path, "sessions/s.jsonl"), getSessionId: () => "s" };
  const kept = await new Evidence().keep({ toolResults: [{ toolCallId: "c", toolName: "bash", details }], entries: [] }, { sessionManager });
  assert.deepEqual(kept, { drafts: [], warnings: [] });
});

test("a link, a pipe, a folder and what is gone are refused by name, and the session goes on", async () => {
  const path = folder();
  const file = join(path, "file");
  writeFileSync(file, "x");
  symlinkSync(file, join(path, "link"));
  mkdirSync(join(path, "directory"));
  const { drafts, warnings } = await keep(new Evidence(), path, join(path, "link"), join(path, "directory"), join(path, "gone"), "relative");
  assert.equal(drafts.length, 3);
  assert.ok(drafts.every(({ data }) => data.refused && !data.sha256));
  assert.equal(warnings.length, 3);
});

test("every visible fold is offered with the digest of exactly what it hides", async () => {
  const path = folder();
  let offered;
  const world = await open(path, { folds: false, after: [(extension) => (offered = registerPiFold(extension, {}))] });
  answers(world, steps(60));
  await world.session.prompt("go");
  const ctx = { sessionManager: world.sessionManager, model: { contextWindow: 100_000 }, hasUI: false, mode: "print" };
  const candidates = await offered.projectionCandidates(ctx);
  assert.ok(candidates.length > 0);
  const folds = new Map(records(world.sessionManager).flatMap((record) => record.folds.map((fold) => [fold.id, fold])));
  for (const [rank, candidate] of candidates.entries()) {
    assert.ok(folds.has(candidate.source_id));
    assert.equal(candidate.rank, rank);
    assert.deepEqual(candidate.route, { tool: "pi_fold_context", arguments: { action: "expand", id: candidate.source_id } });
    assert.ok(candidate.token_cost >= 1 && candidate.expansion_cost > candidate.token_cost && candidate.score > 0 && candidate.score <= 1);
  }
  // A fold of nothing but entries says itself what it hides.
  const leaf = candidates.find((candidate) => folds.get(candidate.source_id).kind !== "cons");
  const hidden = folds.get(leaf.source_id).parts.map(([id]) => `${JSON.stringify(world.sessionManager.getEntry(id))}\n`);
  assert.equal(leaf.source_version, sha(hidden.join("")));
  assert.equal(leaf.generator, "projection-deterministic");
  world.session.dispose();
});
