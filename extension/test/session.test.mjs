// What a person gets who installs the extension and forgets about it.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load } from "../dist/native.js";
import { ai, answers, folder, open, pi, records, rewrites, steps, unpaired } from "./world.mjs";

const compactions = (world) => world.sessionManager.getBranch().filter((entry) => entry.type === "compaction").length;

/** Each fold gives back the lines of the session file that its record names, and those of the folds inside it. */
async function comesBack({ sessionManager }, folds) {
  const branch = sessionManager.getBranch();
  const line = new Map(branch.map((entry) => [entry.id, `${JSON.stringify(entry)}\n`]));
  const fold = await load().Fold.open(Buffer.from([...line.values()].join("")), "{}", 100_000);
  const byId = new Map(folds.map((fold) => [fold.id, fold]));
  const children = (id) => (byId.get(id).children ?? []).map((child) => (Array.isArray(child) ? child[0] : child));
  const hidden = (id) => [...byId.get(id).parts.map(([part]) => part), ...children(id).flatMap(hidden)];
  const place = new Map(branch.map((entry, at) => [entry.id, at]));
  for (const id of byId.keys()) {
    const expected = hidden(id).sort((left, right) => place.get(left) - place.get(right)).map((part) => line.get(part)).join("");
    assert.equal(String(await fold.recover(id)), expected, id);
  }
}

/**
 * The agent peeks at every fold of nothing but entries, one after another, and each answer holds what the results said. Where there is no room it goes on
 * with its work, after which a commit makes room, and asks again.
 */
async function isReadBack(world, folds) {
  const leaves = folds.filter((fold) => fold.kind !== "cons");
  const answered = new Map();
  const calls = leaves.map(({ id }) => ["pi_fold_context", { action: "peek", id, bytes: 128_000 }]);
  let made;
  let number = 0;
  const next = ({ messages }) => {
    const { content, isError } = messages.at(-1);
    if (made?.[1].id && !isError) answered.set(made[1].id, content[0].text);
    if (made?.[1].id && isError) calls.unshift(["big", { text: "work" }], made);
    made = calls.shift();
    number += 1;
    if (!made) return ai.fauxAssistantMessage("read");
    return ai.fauxAssistantMessage([ai.fauxToolCall(...made, { id: `read-${number}` })], { stopReason: "toolUse" });
  };
  answers(world, Array(4 * leaves.length + 9).fill(next));
  await world.session.prompt("read it all back");
  assert.deepEqual(world.errors, []);
  for (const { id, parts } of leaves) {
    for (const [part] of parts) {
      const { message } = world.sessionManager.getEntry(part);
      const texts = message.content.filter((block) => block.type === "text");
      for (const { text } of texts) assert.ok(answered.get(id)?.includes(text), `${id} gives ${part} back`);
    }
  }
}

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
  // Opened again without the extension, the window is the same.
  const again = pi.SessionManager.open(world.session.sessionFile).buildSessionProjection();
  assert.ok(JSON.stringify(again.messages).startsWith(JSON.stringify(world.requests.at(-1)).slice(0, -1)));

  // Every original that a fold hides is a part of one fold, comes back byte for byte, and is read back through the tool.
  const folds = commits.flatMap((commit) => commit.folds);
  const parts = folds.flatMap((fold) => fold.parts.map(([id]) => id));
  assert.equal(new Set(parts).size, parts.length, "an entry is a part of one fold");
  await comesBack(world, folds);
  await isReadBack(world, folds);
  world.session.dispose();
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
  const folds = () => records(second.sessionManager).flatMap((record) => record.folds);
  await comesBack(second, folds());
  const sent = second.requests.at(-1);
  second.session.dispose();
  const forked = pi.SessionManager.open(second.session.sessionFile);
  forked.createBranchedSession(forked.getLeafId());
  const third = await open(path, { manager: forked });
  assert.notEqual(third.session.sessionFile, file);
  answers(third, steps(2, 200));
  await third.session.prompt("in the fork");
  assert.ok(JSON.stringify(third.requests[0]).startsWith(JSON.stringify(sent).slice(0, -1)), "the fork shows what the session showed");
  await comesBack(third, records(forked).flatMap((record) => record.folds));
  await isReadBack(third, records(forked).flatMap((record) => record.folds));
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
  const { turn, turnNow } = Fold.prototype;
  const late = (work) => new Promise((resolve) => setTimeout(resolve, 400)).then(work);
  const shown = [];
  const ui = { setStatus: (key, text) => shown.push([key, text]), notify: () => {}, setWidget: () => {}, theme: { appearance: "dark" } };
  const world = await open(folder(), { ui });
  answers(world, steps(3));
  await world.session.prompt("go");
  assert.deepEqual(shown, [], "nothing took long");
  const file = world.session.sessionFile;
  const entries = world.sessionManager.getBranch().length;
  world.session.dispose();
  native.Fold = { open: (...given) => late(() => Fold.open(...given)) };
  Fold.prototype.turnNow = () => null;
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
    [native.Fold, Fold.prototype.turn, Fold.prototype.turnNow] = [Fold, turn, turnNow];
  }
  const texts = shown.map(([key, text]) => (key === "pi-fold.progress" ? text : key));
  assert.deepEqual(texts, [`pi-fold: reading ${entries} entries…`, undefined, "pi-fold: folding…", undefined]);
});

test("going into the middle of a commit's entries shows the commit whole, and what is missing of it is written again", async () => {
  const world = await open(folder());
  answers(world, steps(80));
  await world.session.prompt("go");
  const branch = world.sessionManager.getBranch();
  const record = branch.findIndex((entry) => entry.customType === "pi-fold.commit");
  const edits = branch.slice(record + 1).findIndex((entry) => entry.type !== "context_edit");
  assert.ok(edits > 4, `${edits} edits`);
  // The window of the first request after the commit, and what the rest of its turn added to it.
  const texts = world.requests.map((request) => JSON.stringify(request).slice(0, -1));
  const first = texts.findIndex((text, at) => at > 0 && !text.startsWith(texts[at - 1]));
  const whole = world.requests[first];
  for (const back of [0, 3, edits - 1]) {
    await world.session.navigateTree(branch[record + back].id, { summarize: false });
    answers(world, [ai.fauxAssistantMessage("well"), ai.fauxAssistantMessage("and well")]);
    const before = world.requests.length;
    await world.session.prompt("on");
    assert.equal(JSON.stringify(world.requests[before].slice(0, whole.length)), JSON.stringify(whole), `${back} edits are on the branch`);
    const targets = world.sessionManager.getBranch().filter((entry) => entry.type === "context_edit").map((entry) => entry.targetId);
    assert.equal(targets.length, edits, "each is written once");
    await comesBack(world, records(world.sessionManager).flatMap((record) => record.folds));
  }
  assert.deepEqual(world.errors, []);
  world.session.dispose();
});

test("an extension that edits what we folded wins where it must, loads before or after ours, and nobody fights", async () => {
  for (const order of ["before", "after"]) {
    const shouted = new Set();
    // It writes over a placeholder, once for each that it sees.
    const shouts = (extension) =>
      extension.on("turn_end", (event, ctx) => {
        const placed = (entry) => entry.type === "context_edit" && entry.replacement && !shouted.has(entry.targetId);
        const target = ctx.sessionManager.getBranch().find(placed)?.targetId;
        if (!target || shouted.size >= 3) return undefined;
        shouted.add(target);
        return { entries: [...event.entries, { type: "context_edit", targetId: target, replacement: { content: [{ type: "text", text: "LOUD" }] } }] };
      });
    const world = await open(folder(), { [order]: [shouts] });
    answers(world, steps(150));
    await world.session.prompt("go");
    assert.deepEqual(world.errors, [], order);
    assert.equal(shouted.size, 3, order);
    for (const request of world.requests) assert.deepEqual(unpaired(request), [], order);
    const edits = world.sessionManager.getBranch().filter((entry) => entry.type === "context_edit");
    for (const target of shouted) assert.ok(edits.filter((edit) => edit.targetId === target).length <= 4, `${order}: two alternations at most`);
    assert.equal(compactions(world), 0, order);
    await comesBack(world, records(world.sessionManager).flatMap((record) => record.folds));
    world.session.dispose();
  }
});

test("where Pi's own threshold lies below the band, a person is told once which setting silences it", async () => {
  for (const [window, times] of [[40_000, 1], [200_000, 0]]) {
    const told = [];
    const ui = { setStatus: () => {}, notify: (words) => told.push(words), setWidget: () => {}, theme: { appearance: "dark" } };
    const world = await open(folder(), { window, ui });
    answers(world, steps(3));
    await world.session.prompt("go");
    // It is told when Pi has drawn the session that was opened.
    await new Promise((done) => setTimeout(done, 500));
    assert.equal(told.filter((words) => words.includes("compaction.reserveTokens")).length, times, `${window}: ${told}`);
    world.session.dispose();
  }
});

test("a person's /fold while an answer is on its way waits for its turn's end: what that answer measured is no measure of the folded window", async () => {
  const told = [];
  const ui = { setStatus: () => {}, setWidget: () => {}, theme: { appearance: "dark" }, notify: (words) => told.push(words) };
  const world = await open(folder(), { ui, compaction: { enabled: false } });
  const list = steps(45);
  const plain = list[44];
  list[44] = async () => {
    await world.session.prompt("/fold");
    return plain;
  };
  answers(world, list);
  await world.session.prompt("go");
  assert.match(told.join("\n"), /an answer is on its way[^]*\d+ folds, [\d,]+ to [\d,]+ tokens/);
  const branch = world.sessionManager.getBranch();
  const record = branch.findIndex((entry) => entry.customType === "pi-fold.commit");
  assert.equal(branch.slice(0, record).filter((entry) => entry.message?.role === "assistant").length, 45, "the record comes after the answer");
  for (const number of [1, 2, 3]) {
    answers(world, [ai.fauxAssistantMessage("fine")]);
    const before = world.requests.length;
    await world.session.prompt(`question ${number}`);
    assert.equal(world.requests.length, before + 1, told.join("\n"));
  }
  assert.deepEqual(world.errors, []);
  world.session.dispose();
});

test("what another extension omits at the boundary of a commit is not shown again by it", async () => {
  const dry = await open(folder());
  answers(dry, steps(80));
  await dry.session.prompt("go");
  const branch = dry.sessionManager.getBranch();
  const first = branch.findIndex((entry) => entry.customType === "pi-fold.commit");
  const clipped = branch[first].data.edits.filter((edit) => edit.clip).map((edit) => dry.sessionManager.getEntry(edit.target).message.toolCallId);
  const nth = branch.slice(0, first).filter((entry) => entry.message?.role === "assistant").length;
  dry.session.dispose();
  assert.ok(clipped.length > 0, "the commit clips results");
  for (const order of ["before", "after"]) {
    let world;
    const prunes = (extension) => extension.on("turn_end", (event, ctx) => {
      if (world.requests.length !== nth) return undefined;
      const entries = ctx.sessionManager.getBranch();
      const result = entries.find((entry) => entry.message?.toolCallId === clipped.at(-1));
      const call = entries.find((entry) => entry.message?.role === "assistant" && entry.message.content.some((block) => block.id === clipped.at(-1)));
      return { entries: [...event.entries, ...[result, call].map(({ id }) => ({ type: "context_edit", targetId: id, replacement: null }))] };
    });
    world = await open(folder(), { [order]: [prunes] });
    answers(world, steps(100));
    await world.session.prompt("go");
    assert.deepEqual([world.errors, world.requests.flatMap(unpaired)], [[], []], order);
    assert.ok(records(world.sessionManager).length > 0, "it folds all the same");
    world.session.dispose();
  }
});

test("details that a tool goes on changing are digested as the file has them, also after /tree", async () => {
  const state = { todos: [] };
  const keeps = (extension) => extension.on("tool_result", () => {
    state.todos.push(`item ${state.todos.length}`);
    return { details: state };
  });
  const world = await open(folder(), { before: [keeps] });
  answers(world, steps(40));
  await world.session.prompt("go");
  const result = world.sessionManager.getBranch().findLast((entry) => entry.message?.role === "toolResult");
  await world.session.navigateTree(result.id, { summarize: false });
  answers(world, steps(60, 100));
  await world.session.prompt("go on");
  const lines = readFileSync(world.session.sessionFile, "utf8").trimEnd().split("\n");
  const digests = new Map(lines.map((line) => [JSON.parse(line).id, createHash("sha256").update(line).digest("hex")]));
  const parts = records(world.sessionManager).flatMap((record) => record.folds.flatMap((fold) => fold.parts));
  assert.ok(parts.length > 50);
  assert.deepEqual(parts.filter(([id, digest]) => digests.get(id) !== digest), []);
  world.session.dispose();
});

test("what a person asks for while a commit is handed to Pi is done when it is on the branch", async () => {
  const told = [];
  const ui = { setStatus: () => {}, setWidget: () => {}, theme: { appearance: "dark" }, notify: (words) => told.push(words) };
  let world;
  let asked = 0;
  // It runs after ours at the same boundary, and takes its time.
  const slow = (extension) => extension.on("turn_end", async (event) => {
    if (asked > 0 || !event.entries.some((entry) => entry.customType === "pi-fold.commit")) return undefined;
    asked += 1;
    await world.session.prompt("/fold");
    return undefined;
  });
  world = await open(folder(), { after: [slow], ui });
  answers(world, steps(80));
  await world.session.prompt("go");
  assert.equal(asked, 1);
  assert.deepEqual([world.errors, world.requests.flatMap(unpaired)], [[], []]);
  assert.match(told.join("\n"), /an answer is on its way/);
  assert.ok(!records(world.sessionManager).some((record) => record.trigger === "recovery"), "nothing had to be put right");
  world.session.dispose();
});
