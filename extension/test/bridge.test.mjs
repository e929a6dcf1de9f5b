// The bridge itself: what it refuses, what a panic does, where second copies are.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { registerPiFold } from "../dist/index.js";
import { load } from "../dist/native.js";
import { ai, answers, folder, open, records, rewrites, steps } from "./world.mjs";

const { Fold } = load();
const question = Buffer.from('{"type":"message","id":"u","message":{"role":"user","content":"hi"}}\n');

test("what is wrong is refused by name, and nothing has changed", async () => {
  await assert.rejects(Fold.open(question, '{"toolFoldTreshold":0}', 20_000), /toolFoldTreshold.*toolFoldThreshold/);
  await assert.rejects(Fold.open(question, "{}", 100), /budget/);
  await assert.rejects(Fold.open(Buffer.from([0xff, 0x0a]), "{}", 20_000), /not UTF-8/);
  const fold = await Fold.open(question, "{}", 20_000);
  const before = await fold.status();
  await assert.rejects(fold.turn(Buffer.from("nonsense\n")), /entry 1/);
  await assert.rejects(fold.turn(Buffer.alloc(0), "teatime"), /teatime.*turn_end/);
  await assert.rejects(fold.configure('{"palette":7}', 20_000), /palette/);
  await assert.rejects(fold.recover("f_000000000000"), /f_000000000000/);
  assert.equal(await fold.status(), before);
  assert.match(JSON.parse(await fold.act('{"action":"peak"}', 1_000)).text, /peek/);
});

test("a panic in the bridge leaves Pi running and the window as it was; folding stops, and a person's /fold goes on", async () => {
  const { turn, turnNow } = Fold.prototype;
  // While Pi waits, and in a worker.
  for (const at of ["at once", "in a worker"]) {
    const world = await open(folder());
    let planted = 0;
    const plant = (method, panic) =>
      function (lines, moment) {
        if (moment !== "turn_end" || world.requests.length !== 30) return method.call(this, lines, moment);
        planted += 1;
        return panic.call(this);
      };
    if (at === "at once") Fold.prototype.turnNow = plant(turnNow, Fold.prototype.panicNow);
    else [Fold.prototype.turnNow, Fold.prototype.turn] = [() => null, plant(turn, Fold.prototype.panic)];
    try {
      answers(world, steps(120));
      await world.session.prompt("go");
    } finally {
      [Fold.prototype.turn, Fold.prototype.turnNow] = [turn, turnNow];
    }
    assert.equal(planted, 1, at);
    assert.deepEqual(world.errors, []);
    assert.ok(world.requests.length > 30, "Pi goes on");
    assert.equal(records(world.sessionManager).filter((record) => record.trigger === "band").length, 0, "nothing is folded unasked");
    answers(world, steps(3, 200));
    await world.session.prompt("/fold");
    assert.equal(records(world.sessionManager).at(-1).trigger, "person");
    await world.session.prompt("on");
    assert.equal(rewrites(world.requests.slice(-3)), 0);
    world.session.dispose();
  }
});

test("folded originals have a second copy beside the session that its owner alone may read; a store that cannot be opened is a warning", async () => {
  const path = folder();
  const world = await open(path);
  answers(world, steps(80));
  await world.session.prompt("go");
  const store = join(path, "sessions", "pi-fold.sqlite");
  assert.ok(existsSync(store));
  assert.equal(statSync(store).mode & 0o777, 0o600);
  assert.ok(records(world.sessionManager).length > 0);
  world.session.dispose();

  const other = folder();
  writeFileSync(join(other, "sessions", "pi-fold.sqlite"), Buffer.alloc(8_192, 7));
  const words = [];
  const { write } = process.stderr;
  process.stderr.write = (text) => words.push(String(text));
  const second = await open(other);
  try {
    answers(second, steps(80));
    await second.session.prompt("go");
  } finally {
    process.stderr.write = write;
  }
  assert.ok(records(second.sessionManager).length > 0, "folding goes on");
  assert.equal(words.filter((text) => text.includes("pi-fold.sqlite")).length, 1, `told once: ${words}`);
  second.session.dispose();
});

test("what the agent expands is shown with the next request and folded again to the same bytes", async () => {
  const world = await open(folder());
  answers(world, steps(20));
  await world.session.prompt("go");
  await world.session.prompt("/fold");
  answers(world, [ai.fauxAssistantMessage("well")]);
  await world.session.prompt("so?");
  const folded = world.requests.at(-1);
  const fold = records(world.sessionManager)[0].folds.at(-1);
  const call = (action, id) => ai.fauxAssistantMessage([ai.fauxToolCall("pi_fold_context", { action, id: fold.id }, { id })], { stopReason: "toolUse" });
  answers(world, [call("expand", "open"), call("refold", "close"), ai.fauxAssistantMessage("done")]);
  await world.session.prompt("look and close");
  const [, opened, closed] = world.requests.slice(-3);
  const shown = (request) => JSON.stringify(request.slice(0, folded.length));
  assert.ok(JSON.stringify(opened).includes(world.sessionManager.getEntry(fold.parts[0][0]).message.content[0].text.slice(0, 500)), "the originals are there");
  assert.equal(shown(closed), shown(folded));
  assert.deepEqual(world.errors, []);
  world.session.dispose();
});

test("neither work nor a panic prints anything: a screen and a protocol are on the other side", () => {
  const script = `
    import { load } from ${JSON.stringify(new URL("../dist/native.js", import.meta.url).href)};
    const fold = await load().Fold.open(Buffer.alloc(0), "{}", 20000, "/dev/null/no/store");
    await fold.turn(Buffer.alloc(0), "asked");
    await fold.save();
    await fold.panic().then(() => process.exit(3), () => {});
    await fold.turn(Buffer.from("nonsense")).then(() => process.exit(4), () => {});`;
  const done = spawnSync(process.execPath, ["--input-type=module", "--eval", script], { encoding: "utf8" });
  assert.deepEqual([done.status, done.stdout, done.stderr], [0, "", ""]);
});

test("however often the extension is loaded, it listens once for a file-size limit", async () => {
  const counts = [];
  for (const again of ["a", "b", "c"]) {
    const { registerPiFold } = await import(`../dist/index.js?${again}`);
    const world = await open(folder(), { folds: false, after: [(extension) => registerPiFold(extension, {})] });
    world.session.dispose();
    counts.push(process.listenerCount("SIGXFSZ"));
  }
  assert.ok(counts[0] > 0 && counts[2] === counts[0], `${counts}`);
});

test("a Pi that cannot edit what is in context is told so once, and nothing is folded", async () => {
  const words = [];
  const handlers = new Map();
  const api = { on: (name, handler) => handlers.set(name, handler), registerTool: () => {}, registerCommand: () => {}, getSettings: () => ({}) };
  registerPiFold(api, {});
  const sessionManager = { getBranch: () => [], getLeafId: () => null };
  const ctx = { sessionManager, model: { contextWindow: 100_000 }, hasUI: true, mode: "rpc", ui: { notify: (text) => words.push(text) } };
  await handlers.get("session_start")({}, ctx);
  for (const name of ["turn_end", "agent_before_settle", "context_with_system"]) {
    const event = { type: name, entries: [], messages: [], toolResults: [], outcome: "completed", message: { role: "assistant" } };
    assert.equal(await handlers.get(name)(event, ctx), undefined, name);
  }
  assert.deepEqual(words, ["pi-fold: this Pi is too old: pi-fold needs 0.87 or later, and folds nothing now"]);
});

test("a model whose window is too small to fold in is shown what was folded, and the one before is folded for again", async () => {
  const world = await open(folder(), { compaction: { enabled: false } });
  answers(world, steps(20));
  await world.session.prompt("go");
  await world.session.prompt("/fold");
  const { model } = world.session;
  for (const window of [8_192, 100_000]) {
    model.contextWindow = window;
    answers(world, [ai.fauxAssistantMessage("well")]);
    await world.session.prompt("and?");
    assert.ok(JSON.stringify(world.requests.at(-1)).includes("⟦pi-fold f_"), `${window}: placeholders are shown`);
    assert.ok(JSON.stringify(world.requests.at(-1)).length < 80_000, `${window}`);
  }
  assert.deepEqual(world.errors, []);
  world.session.dispose();
});
