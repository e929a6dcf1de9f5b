// What a person gets who installs the extension and forgets about it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../dist/native.js";
import { ai, answers, folder, open, pi, records, rewrites, steps, unpaired } from "./world.mjs";

const compactions = (world) => world.sessionManager.getBranch().filter((entry) => entry.type === "compaction").length;

test("three hundred calls in a window of 100,000 tokens: a rewrite for each commit and none else, and no compaction", async () => {
  const path = folder();
  const world = await open(path);
  answers(world, steps(300));
  await world.session.prompt("go");
  assert.deepEqual(world.errors, []);
  assert.equal(world.requests.length, 301);
  const commits = records(world.sessionManager);
  assert.ok(commits.length >= 3, `${commits.length} commits`);
  assert.equal(rewrites(world.requests), commits.length);
  assert.equal(compactions(world), 0);
  for (const request of world.requests) assert.deepEqual(unpaired(request), []);
  const messages = JSON.stringify(world.sessionManager.buildSessionProjection().messages);

  // Every original that a fold hides is on the branch, and a peek gives it back.
  const folds = commits.flatMap((commit) => commit.folds);
  const parts = folds.flatMap((fold) => fold.parts.map(([id]) => id));
  assert.equal(new Set(parts).size, parts.length, "an entry is a part of one fold");
  const leaf = folds.find((fold) => fold.kind !== "cons");
  answers(world, [ai.fauxAssistantMessage([ai.fauxToolCall("pi_fold_context", { action: "peek", id: leaf.id }, { id: "peek" })], { stopReason: "toolUse" }), ai.fauxAssistantMessage("read")]);
  await world.session.prompt("look");
  const result = world.requests.at(-1).find((message) => message.toolCallId === "peek");
  const original = world.sessionManager.getEntry(leaf.parts[0][0]).message;
  const text = original.content.find((block) => block.type === "text")?.text ?? "";
  assert.ok(result.content[0].text.includes(text.slice(0, 200)), "the peek gives the original");
  world.session.dispose();

  // Opened again without the extension, the window is the same.
  const again = pi.SessionManager.open(world.session.sessionFile);
  assert.ok(JSON.stringify(again.buildSessionProjection().messages).startsWith(messages.slice(0, -1)));
});

test("a session that is opened again goes on where it stood, a forked one too", async () => {
  const path = folder();
  const first = await open(path);
  answers(first, steps(80));
  await first.session.prompt("go");
  const file = first.session.sessionFile;
  const last = first.requests.at(-1);
  first.session.dispose();
  const second = await open(path, { manager: pi.SessionManager.open(file) });
  answers(second, steps(40, 80));
  await second.session.prompt("go on");
  assert.deepEqual(second.errors, []);
  assert.ok(JSON.stringify(second.requests[0]).startsWith(JSON.stringify(last).slice(0, -1)), "the first request goes on from the last one");
  assert.equal(rewrites(second.requests), records(second.sessionManager).length - records(first.sessionManager).length);
  const sent = second.requests.at(-1);
  second.session.dispose();
  const forked = pi.SessionManager.open(second.session.sessionFile);
  forked.createBranchedSession(forked.getLeafId());
  const third = await open(path, { manager: forked });
  assert.notEqual(third.session.sessionFile, file);
  answers(third, steps(2, 200));
  await third.session.prompt("in the fork");
  assert.ok(JSON.stringify(third.requests[0]).startsWith(JSON.stringify(sent).slice(0, -1)), "the fork shows what the session showed");
  assert.deepEqual(third.errors, []);
  third.session.dispose();
});

test("a person's /fold appends a record at once, the next request shows it, and the next boundary writes its edits", async () => {
  const world = await open(folder());
  answers(world, steps(20));
  await world.session.prompt("go");
  assert.equal(records(world.sessionManager).length, 0, "far below the band");
  answers(world, [ai.fauxAssistantMessage("well"), ai.fauxAssistantMessage("and well")]);
  await world.session.prompt("/fold");
  assert.equal(records(world.sessionManager).length, 1);
  const edits = () => world.sessionManager.getBranch().filter((entry) => entry.type === "context_edit").length;
  assert.equal(edits(), 0);
  await world.session.prompt("and now?");
  const sent = world.requests.at(-1);
  assert.deepEqual(unpaired(sent), []);
  assert.ok(JSON.stringify(sent).includes("⟦pi-fold f_"), "placeholders are shown");
  assert.ok(edits() > 0, "the edits are on the branch by now");
  await world.session.prompt("once more");
  assert.ok(JSON.stringify(world.requests.at(-1)).startsWith(JSON.stringify(sent).slice(0, -1)), "the same bytes, laid over or written");
  assert.deepEqual(world.errors, []);
  world.session.dispose();
});

test("a request that is refused for its size is folded, sent again once, and no compaction is made", async () => {
  const refusal = () => ai.fauxAssistantMessage([], { stopReason: "error", errorMessage: "prompt is too long: 213462 tokens > 200000 maximum" });
  for (const compaction of [{}, { enabled: false }]) {
    const world = await open(folder(), { compaction });
    answers(world, [...steps(20).slice(0, -1), refusal(), ai.fauxAssistantMessage("done")]);
    await world.session.prompt("go");
    assert.deepEqual(world.errors, []);
    assert.deepEqual(records(world.sessionManager).map((record) => record.trigger), ["overflow"]);
    assert.equal(compactions(world), 0);
    assert.equal(world.requests.length, 22, "the refused request and one more");
    assert.deepEqual(unpaired(world.requests.at(-1)), []);
    assert.ok(JSON.stringify(world.requests.at(-1)).length < JSON.stringify(world.requests.at(-2)).length / 2);
    world.session.dispose();
  }
});

test("an extension that drops our entries, or ends the boundary for all, loses nothing of ours for good", async () => {
  const drops = (extension) => extension.on("turn_end", () => ({ entries: [] }));
  const voids = (extension) => extension.on("turn_end", (event) => ({ entries: [...event.entries, { type: "context_edit", targetId: "deadbeef", replacement: null }] }));
  for (const [name, after] of [["drops", drops], ["voids", voids]]) {
    const world = await open(folder(), { after: [after] });
    answers(world, steps(120));
    await world.session.prompt("go");
    assert.ok(records(world.sessionManager).length >= 1, `${name}: a commit came through`);
    assert.equal(compactions(world), 0, name);
    for (const request of world.requests) assert.deepEqual(unpaired(request), [], name);
    assert.ok(Math.max(...world.requests.map((request) => JSON.stringify(request).length)) < 400_000, name);
    world.session.dispose();
  }
});

test("a step back to the point before a commit that leaves only notes behind is not taken", async () => {
  const world = await open(folder());
  answers(world, steps(80));
  await world.session.prompt("go");
  const branch = world.sessionManager.getBranch();
  const answer = branch.findLast((entry) => entry.type === "message" && entry.message.role === "assistant");
  answers(world, [ai.fauxAssistantMessage("yes")]);
  await world.session.prompt("/fold");
  const leaf = world.sessionManager.getLeafId();
  const { cancelled } = await world.session.navigateTree(answer.id, { summarize: false });
  assert.ok(cancelled);
  assert.equal(world.sessionManager.getLeafId(), leaf);
  world.session.dispose();
});

test("what takes longer than a moment is told on the screen while it lasts, and nothing else is", async () => {
  const native = load();
  const { Fold } = native;
  const { turn } = Fold.prototype;
  const late = (work) => new Promise((resolve) => setTimeout(resolve, 400)).then(work);
  const shown = [];
  const ui = { setStatus: (key, text) => shown.push([key, text]), notify: () => {} };
  const world = await open(folder(), { ui });
  answers(world, steps(3));
  await world.session.prompt("go");
  assert.deepEqual(shown, [], "nothing took long");
  const file = world.session.sessionFile;
  const entries = world.sessionManager.getBranch().length;
  world.session.dispose();
  native.Fold = { open: (...given) => late(() => Fold.open(...given)) };
  Fold.prototype.turn = function (...given) {
    return given[1] === "turn_end" ? late(() => turn.apply(this, given)) : turn.apply(this, given);
  };
  try {
    const again = await open(folder(), { ui, manager: pi.SessionManager.open(file) });
    answers(again, [ai.fauxAssistantMessage("well")]);
    await again.session.prompt("and?");
    again.session.dispose();
    // Without a screen there is nothing to tell it on.
    const blind = await open(folder(), { manager: pi.SessionManager.open(file) });
    assert.deepEqual(blind.errors, []);
    blind.session.dispose();
  } finally {
    [native.Fold, Fold.prototype.turn] = [Fold, turn];
  }
  const texts = shown.map(([key, text]) => (key === "pi-fold.progress" ? text : key));
  assert.deepEqual(texts, [`pi-fold: reading ${entries} entries…`, undefined, "pi-fold: folding…", undefined]);
});
