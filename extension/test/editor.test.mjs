// What a person reads and does in the map, asked of a real session.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Editor, READ_BYTES } from "../dist/editor.js";
import { Folding } from "../dist/folding.js";
import { load } from "../dist/native.js";
import { layOver } from "../dist/overlay.js";
import { written } from "../dist/words.js";
import { answers, folder, open, steps, unpaired } from "./world.mjs";

const theme = { fg: (_, text) => text, bold: (text) => text };
const paint = { shades: Array(6).fill(""), deeper: Array(6).fill(""), muted: (text) => text, error: (text) => text };
const names = { "\r": "tui.select.confirm", "\x1b": "tui.select.cancel", "\x1b[D": "tui.editor.cursorLeft", j: "tui.select.down" };
const keys = { matches: (data, name) => names[data] === name };

/** A session that folds stand in, and what a person asks of it. */
async function folded(count = 60) {
  let folding;
  const world = await open(folder(), { after: [(extension) => (folding = new Folding(extension, load(), {}))] });
  answers(world, steps(count));
  await world.session.prompt("go");
  assert.deepEqual(world.errors, []);
  const ctx = { sessionManager: world.sessionManager, model: { contextWindow: 100_000 }, hasUI: false, mode: "print" };
  await folding.open(ctx);
  return { world, folding, ctx };
}

/** The map on a screen of many rows; `press` waits until what a key asked for is drawn. */
async function map(asked, place = { at: 0, open: new Set(), said: "" }) {
  const editor = new Editor(asked, place, { requestRender: () => {}, terminal: { rows: 5_000 } }, theme, keys, () => paint, () => {});
  const drawn = async () => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return editor.render(10_000).map((line) => line.replaceAll(/\x1b\[[0-9;]*m/g, ""));
  };
  await drawn();
  return {
    drawn,
    press: async (key) => {
      editor.handleInput(key);
      return drawn();
    },
  };
}

const asks = (folding, ctx) => ({
  gauge: async () => undefined,
  map: (inside) => folding.map(inside, ctx),
  act: (call) => folding.act(call, ctx, "person"),
  read: (ids, offset) => folding.read(ids, offset, READ_BYTES, ctx),
  seen: async (ids) => written(await folding.shown(ids, ctx)),
  gist: () => "",
});

test("a fold is read to its end part by part, without a gap, and back; a call is read with its results", async () => {
  const { world, folding, ctx } = await folded();
  const rows = await folding.map(undefined, ctx);
  const big = rows.findIndex((row) => row.fold === "consolidated");
  const whole = await folding.read([rows[big].id], 0, 0xffff_ffff, ctx);
  assert.ok(whole.whole > READ_BYTES && whole.end === whole.whole, `${whole.whole}`);
  const screen = await map(asks(folding, ctx));
  for (let row = 0; row < big; row += 1) await screen.press("j");
  const page = (lines) => lines.slice(1, -1).join("\n");
  const hint = (lines) => lines.at(-1);
  let lines = await screen.press("\r");
  assert.match(lines[0], /bytes 0 to 64,000 of /);
  const first = page(lines);
  let text = first;
  while (/n goes on/.test(hint(lines))) {
    lines = await screen.press("n");
    text += page(lines);
  }
  assert.equal(text.replaceAll("\n", ""), whole.text.replaceAll("\n", ""));
  assert.deepEqual(await screen.press("n"), lines, "nothing follows the end");
  while (/v goes back/.test(hint(lines))) lines = await screen.press("v");
  assert.equal(page(lines), first);
  await screen.press("\x1b");
  const unit = rows.findIndex((row, at) => at > big && row.fold === undefined && row.entries.length > 1);
  for (let row = big; row < unit; row += 1) await screen.press("j");
  lines = await screen.press("\r");
  for (const id of rows[unit].entries) assert.ok(lines.some((line) => line.includes(id)), `${id} is read too`);
  assert.doesNotMatch(hint(lines), /n goes on/);
  world.session.dispose();
});

test("what the model sees of a fold that was just expanded is told before its edits are on the branch", async () => {
  const { world, folding, ctx } = await folded();
  const row = (await folding.map(undefined, ctx)).find((row) => row.fold === "span");
  const closed = written(await folding.shown(row.entries, ctx));
  assert.match(closed, /⟦pi-fold f_/);
  const reply = await folding.act({ action: "expand", id: row.id }, ctx, "person");
  assert.equal(reply.refused, false, reply.text);
  assert.ok((await folding.status(ctx)).unwritten > 0, "promised, and not on the branch yet");
  const inside = await folding.map(row.id, ctx);
  const seen = written(await folding.shown(row.entries, ctx));
  assert.ok(seen.length > closed.length);
  for (const part of inside) assert.doesNotMatch(written(await folding.shown(part.entries, ctx)), /^Nothing/, `${part.id} is shown`);
  world.session.dispose();
});

test("a fold that is gone closes on the map, and folding goes on", async () => {
  const { world, folding, ctx } = await folded(20);
  assert.equal(await folding.map("f_000000000000", ctx), undefined);
  assert.equal((await folding.status(ctx)).suspended, null);
  const fold = { id: "f_1", category: 0, entries: ["a"], shown: 1, original: 2, pinned: false, fold: "span", place: "root", gist: "" };
  const place = { at: 0, open: new Set(["f_1"]), said: "" };
  const screen = await map({ ...asks(folding, ctx), map: async (inside) => (inside ? undefined : [fold]) }, place);
  assert.match((await screen.drawn()).join("\n"), /▸ █ span f_1/);
  assert.equal(place.open.size, 0);
  world.session.dispose();
});

test("what is damaged is said in its place, and the rest is read", async () => {
  const { world, folding, ctx } = await folded();
  const [row] = (await folding.map(undefined, ctx)).filter((row) => row.fold === "span");
  const read = await folding.read([row.entries[0], "nowhere", row.entries.at(-1)], 0, READ_BYTES, ctx);
  assert.match(read.text, /⟦pi-fold: there is no nowhere on this branch⟧/);
  for (const id of [row.entries[0], row.entries.at(-1)]) assert.ok(read.text.includes(id));
  world.session.dispose();
});

test("an expanded fold has a row before what is shown of it, its folds are rows and in the bar, and r on any of them folds it again", async () => {
  const { world, folding, ctx } = await folded(140);
  const parent = (await folding.map(undefined, ctx)).find((row) => row.fold === "consolidated");
  assert.equal((await folding.act({ action: "expand", id: parent.id }, ctx, "person")).refused, false);
  const rows = await folding.map(undefined, ctx);
  const head = rows.findIndex((row) => row.id === parent.id);
  assert.deepEqual([rows[head].place, rows[head].shown], ["expanded", 0]);
  const inner = rows.filter((row) => row.within === parent.id);
  const children = inner.filter((row) => row.fold);
  assert.ok(children.length > 1 && children.every((row) => row.place === "within" && row.shown > 0), JSON.stringify(inner));
  assert.ok(inner.every((row) => row.state !== "omitted by Pi"));
  const folds = rows.filter((row) => row.fold && row.place !== "expanded").length;
  const status = (await folding.act({ action: "status", detail: "folds" }, ctx, "person")).text;
  assert.ok(children.every((row) => status.includes(row.id)) && folds > 0);
  const screen = await map(asks(folding, ctx));
  const at = rows.findIndex((row) => row.id === children[1].id);
  for (let row = 0; row < at; row += 1) await screen.press("j");
  const lines = await screen.press("\x1b[D");
  assert.match(lines.find((line) => line.startsWith("→")), new RegExp(`▾ █ consolidated ${parent.id}.*expanded`), "left goes to the fold");
  await screen.press("j");
  await screen.press("r");
  assert.ok((await folding.map(undefined, ctx)).some((row) => row.id === parent.id && row.place === "root"), "it is folded again");
  world.session.dispose();
});

test("the choice stays on its row, whatever is folded above it", async () => {
  const { folding, world, ctx } = await folded(20);
  const row = (id, fold) => ({ id, category: 0, entries: [id], shown: 1, original: 2, pinned: false, within: null, ...(fold ? { fold: "span", place: "root", gist: "" } : { state: "raw", mark: null }) });
  let rows = ["a", "b", "c", "d"].map((id) => row(id));
  const calls = [];
  const screen = await map({ ...asks(folding, ctx), map: async () => rows, act: async (call) => (calls.push(call.ids[0]), { text: "done" }) });
  await screen.press("j");
  await screen.press("j");
  rows = [row("f", true), row("c"), row("d")];
  await screen.press("p");
  await screen.press("u");
  assert.deepEqual(calls, ["c", "c"]);
  world.session.dispose();
});

test("a line of ten million characters is read and seen in parts that are drawn at once", async () => {
  const { folding, world, ctx } = await folded(20);
  const [row] = await folding.map(undefined, ctx);
  const screen = await map({ ...asks(folding, ctx), seen: async () => "x".repeat(10_000_000) });
  const lines = await screen.press("s");
  assert.match(lines[0], /characters 0 to 64,000 of 10,000,000/, row.id);
  assert.match((await screen.press("n"))[0], /characters 64,000 to 128,000/);
  world.session.dispose();
});

test("a batch of which another extension changed a half is hidden whole, whichever half it is", async () => {
  const { folding, world, ctx } = await folded(60);
  const call = (await folding.map(undefined, ctx)).find((row) => row.fold === undefined && row.entries.length === 2);
  const overlay = call.entries.map((id) => [id, null]);
  const messages = world.sessionManager.buildSessionProjection().messages;
  const [answer, result] = call.entries.map((id) => world.sessionManager.getEntry(id).message);
  for (const changed of [answer, result]) {
    const given = messages.map((message) => (message.role === changed.role && message.timestamp === changed.timestamp ? { ...message, timestamp: 1 } : message));
    const laid = layOver(given, overlay, world.sessionManager);
    assert.equal(laid.unmatched.length, 1);
    assert.deepEqual(unpaired(laid.messages), []);
    assert.equal(laid.messages.length, messages.length - 2);
  }
  world.session.dispose();
});
