// What the extension costs inside Pi: prints the rows of a table as JSON. `cargo xtask bench --pi` runs it and shows them; a name of `parts` and its
// words give one part alone, in numbers.
//
// Main-thread time of a handler of ours is the time from its call to its end without the times in which it waited for the addon or the disk, and
// with what it takes to wake it again, which is measured at the start. The event loop's own count (`performance.eventLoopUtilization`) would not do:
// while a handler waits, V8 collects what Pi threw away. What other programs take from the thread is in it, so a busy machine shows more. Every part
// runs in a process of its own: none pays for the garbage of another.

import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { registerPiFold } from "../dist/index.js";
import { lines } from "../dist/journal.js";
import { load } from "../dist/native.js";
import { ai, folder, open, pi, records, steps } from "../test/world.mjs";

/** Bytes of a tool result in the sessions that are made here. */
const RESULT = 2_000;
/** A context window that nothing here fills. */
const WIDE = 1_000_000_000;

const quantile = (numbers, share) => [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length * share)];
const median = (numbers) => quantile(numbers, 0.5);

/** A session file: one question, and calls with results up to so many entries. */
function written(path, entries, result = RESULT) {
  const time = Date.parse("2026-01-01T00:00:00.000Z");
  const lines = [{ type: "session", version: 3, id: "bench", timestamp: new Date(time).toISOString(), cwd: path }];
  const message = (at, message) => {
    const timestamp = time + at;
    const parentId = at === 0 ? null : (at - 1).toString(16).padStart(8, "0");
    const id = at.toString(16).padStart(8, "0");
    lines.push({ type: "message", id, parentId, timestamp: new Date(timestamp).toISOString(), message: { ...message, timestamp } });
  };
  const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const usage = { ...none, totalTokens: 0, cost: { ...none, total: 0 } };
  message(0, { role: "user", content: "Make the tests pass." });
  for (let at = 1; at < entries; at += 1) {
    const [id, step] = [`call_${at >> 1}`, at >> 1];
    if (at % 2 === 1) {
      const content = [{ type: "text", text: `step ${step}` }, { type: "toolCall", id, name: "big", arguments: { text: `src/part_${step}.rs` } }];
      message(at, { role: "assistant", content, api: "faux-api", provider: "faux", model: "faux-1", usage, stopReason: "toolUse" });
    } else {
      const line = (_, number) => `${step}:${number} fn step_${number}() { assert_eq!(left(${number}), right(${step})); }`;
      const text = Array.from({ length: Math.ceil(result / 60) }, line).join("\n").slice(0, result);
      const toolCallId = `call_${(at - 1) >> 1}`;
      message(at, { role: "toolResult", toolCallId, toolName: "big", content: [{ type: "text", text }], isError: false });
    }
  }
  const file = join(path, "sessions", "bench.jsonl");
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return file;
}

/** Milliseconds that were waited so far, how often, and what waking up takes each time. */
const waited = { ms: 0, times: 0, waking: 0 };

/** Counts the time between a call and its answer as waiting. */
function watch(of, name) {
  const call = of[name];
  of[name] = function (...given) {
    const answer = call.apply(this, given);
    const from = performance.now();
    const done = () => {
      waited.ms += performance.now() - from;
      waited.times += 1;
    };
    answer.then(done, done);
    return answer;
  };
}

/** Measures waking up on an idle loop, where nothing else is active; then watches the addon and the disk. */
async function watchAll() {
  const native = load();
  const { Fold } = native;
  const fold = await Fold.open(Buffer.alloc(0), "{}", WIDE);
  const wakings = [];
  for (let count = 0; count < 200; count += 1) {
    const answer = fold.request();
    const before = performance.eventLoopUtilization();
    await answer;
    wakings.push(performance.eventLoopUtilization(before).active);
  }
  waited.waking = median(wakings);
  for (const name of ["turn", "request", "save", "status", "act", "letsHostCompact"]) watch(Fold.prototype, name);
  native.Fold = { open: (...given) => Fold.open(...given) };
  watch(native.Fold, "open");
  watch(fs, "statfs");
  syncBuiltinESMExports();
}

/** An extension API whose handlers are measured: each call adds its event, its time on the main thread and on the clock, and its answer. */
function measured(calls) {
  return (extension) => {
    const on = (event, handler) =>
      extension.on(event, async (...given) => {
        const [start, before] = [performance.now(), { ...waited }];
        const answer = await handler(...given);
        const wall = performance.now() - start;
        const main = wall - (waited.ms - before.ms) + (waited.times - before.times) * waited.waking;
        calls.push({ event, main, wall, answer });
        return answer;
      });
    registerPiFold(new Proxy(extension, { get: (of, name) => (name === "on" ? on : of[name]) }), {});
  };
}

/** What the runtime takes a branch for, in tokens. */
async function weight(manager) {
  const fold = await load().Fold.open(lines(manager.getBranch()), "{}", WIDE);
  return JSON.parse(await fold.status()).occupancy;
}

/** A session of so many entries in a real Pi, with the extension measured. */
async function session(entries, given = {}) {
  const path = folder();
  const calls = [];
  const manager = pi.SessionManager.open(written(path, entries, given.result));
  // A session that is just above what it is folded at, or far below it.
  const window = given.full ? Math.round((await weight(manager)) / 0.81) : WIDE;
  const world = await open(path, { manager, window, folds: false, before: [measured(calls)], compaction: { enabled: false }, ...given });
  return { world, calls };
}

/** Main-thread milliseconds of our handlers, turn by turn: what was done from one turn's end up to the next. */
function turns(calls) {
  const sums = [];
  let sum = 0;
  for (const { event, main } of calls) {
    if (event !== "context_with_system" && event !== "turn_end") continue;
    sum += main;
    if (event === "turn_end") [sum] = [0, sums.push(sum)];
  }
  return sums;
}

/** Pi's own handling of a context, as at each request: the projection, and the copy that handlers are given. */
function yardstick(manager) {
  const times = Array.from({ length: 41 }, () => {
    const start = performance.now();
    structuredClone(manager.buildSessionProjection().messages);
    return performance.now() - start;
  });
  return median(times);
}

/** What it takes on the main thread to hand two calls to Node's own pool, as a turn hands two to the addon: threads that sleep are woken. */
async function handing() {
  const times = [];
  for (let count = 0; count < 200; count += 1) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    const start = performance.now();
    const answered = new Promise((resolve) => randomBytes(16, resolve));
    times.push(performance.now() - start);
    await answered;
  }
  return 2 * median(times);
}

const parts = {
  /** A turn without a commit, at so many entries. */
  async turn(entries) {
    const { world, calls } = await session(Number(entries) - 300);
    world.faux.setResponses(steps(300));
    await world.session.prompt("go");
    if (records(world.sessionManager).length > 0) throw new Error("a turn was to be measured, and a commit was made");
    // The first ones are compiled while they run.
    const sums = turns(calls).slice(50);
    return { turn: median(sums), quiet: quantile(sums, 0.1), handing: await handing(), yardstick: yardstick(world.sessionManager) };
  },

  /** A commit of about a hundred folds: the boundary that answers it. Pi's appends come after. */
  async commit() {
    const { world, calls } = await session(225, { result: 17_000, full: true });
    world.faux.setResponses(steps(30));
    await world.session.prompt("go");
    const record = records(world.sessionManager)[0];
    const commits = ({ event, answer }) => event === "turn_end" && answer?.entries?.some((entry) => entry.customType === "pi-fold.commit");
    const at = calls.findIndex(commits);
    if (!record || at < 0) throw new Error("no commit was made");
    return {
      folds: record.folds.length,
      boundary: calls[at].main,
      wall: calls[at].wall,
      drafts: calls[at].answer.entries.length,
    };
  },

  /** What JavaScript's heap takes for each entry of a session that grows, with the extension or without it. */
  async heap(folds) {
    const { world, calls } = await session(400, folds === "with" ? {} : { before: [] });
    const at = () => {
      // What the first collection finalizes, the second one frees.
      global.gc();
      global.gc();
      const { heapUsed, external } = process.memoryUsage();
      return { heap: heapUsed + external, entries: world.sessionManager.getBranch().length };
    };
    const grow = async () => {
      world.faux.setResponses(steps(500));
      await world.session.prompt("go");
      calls.length = 0;
    };
    // What the first turns need once is no growth.
    await grow();
    const before = at();
    await grow();
    const after = at();
    return { heap: (after.heap - before.heap) / (after.entries - before.entries) };
  },

  /** What the addon takes for each entry that it reads, beside Pi's own: the process's memory before and after, without a session of Pi's. */
  async addon(entries) {
    const bytes = lines(pi.SessionManager.open(written(folder(), Number(entries))).getBranch());
    const first = await load().Fold.open(bytes, "{}", WIDE);
    const rss = () => (global.gc(), process.memoryUsage.rss());
    const before = rss();
    const folds = [first];
    for (let count = 0; count < 4; count += 1) folds.push(await load().Fold.open(bytes, "{}", WIDE));
    return { addon: (rss() - before) / 4 / Number(entries), line: bytes.length / Number(entries), folds: folds.length };
  },

  /** A long session that was never folded: it is opened, and its first commit is made. */
  async first(entries) {
    const shown = [];
    const screen = { setWidget: () => {}, notify: () => {}, theme: { appearance: "dark" } };
    const ui = { ...screen, setStatus: (key, text) => text && shown.push(text) };
    const { world, calls } = await session(Number(entries), { result: 700, full: true, ui });
    world.faux.setResponses(steps(3));
    await world.session.prompt("go");
    const [record] = records(world.sessionManager);
    const slowest = calls.filter(({ event }) => event === "turn_end").sort((one, other) => other.wall - one.wall)[0];
    const opened = calls.find(({ event }) => event === "session_start");
    if (!record) throw new Error("no commit was made");
    const time = ({ wall, main }) => ({ wall, main });
    return { folds: record.folds.length, open: time(opened), commit: time(slowest), shown, yardstick: yardstick(world.sessionManager) };
  },
};

/** A part in a process of its own. */
function apart(name, ...words) {
  const done = spawnSync(process.execPath, ["--expose-gc", fileURLToPath(import.meta.url), name, ...words.map(String)], { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${name} ${words.join(" ")}: ${done.stderr}`);
  return JSON.parse(done.stdout);
}

/** All parts, as rows of a table. */
function all() {
  const [small, turn, commit] = [apart("turn", 800), apart("turn", 2_000), apart("commit")];
  const [heap, bare, addon, first] = [apart("heap", "with"), apart("heap", "without"), apart("addon", 20_000), apart("first", 20_000)];
  const ms = (value) => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
  const kb = (value) => `${(value / 1_000).toFixed(1)} kB`;
  const row = (what, median, ratio = "", asked = "") => ({ what, median, ratio, asked });
  const of = (value, yardstick) => `${(value / yardstick).toFixed(3)} of Pi's own`;
  return [
    row("Pi's own at 2,000 entries: the projection and the copy of a request", ms(turn.yardstick), "1"),
    row("a turn without a commit at 2,000 entries, main thread", ms(turn.turn), of(turn.turn, turn.yardstick), "at most 0.5 ms"),
    row("the quietest tenth of these turns", ms(turn.quiet), of(turn.quiet, turn.yardstick)),
    row("two calls of Node's own thread pool, which sleeps in between", ms(turn.handing), `${(turn.handing / turn.turn).toFixed(2)} of a turn`),
    row("a turn at 800 entries", ms(small.turn), `${(small.turn / turn.turn).toFixed(2)} of 2,000 entries`),
    row(`the boundary that commits ${commit.folds} folds (${commit.drafts} entries), main thread`, ms(commit.boundary), "", "at most 20 ms"),
    row("the same on the clock", ms(commit.wall)),
    row("heap for an entry with the extension", kb(heap.heap), `${(heap.heap / bare.heap).toFixed(2)} of the heap without it`),
    row(`memory of the addon for an entry whose line has ${kb(addon.line)}`, kb(addon.addon), `${(addon.addon / addon.line).toFixed(2)} of its line`),
    row("opening 20,001 entries that were never folded: clock", ms(first.open.wall), of(first.open.wall, first.yardstick)),
    row("main thread", ms(first.open.main), of(first.open.main, first.yardstick)),
    row(`the boundary that first commits them, ${first.folds} folds: clock`, ms(first.commit.wall), of(first.commit.wall, first.yardstick)),
    row("main thread", ms(first.commit.main), of(first.commit.main, first.yardstick)),
    row("what the footer said meanwhile", first.shown.join("; ") || "nothing: nothing took 300 ms"),
  ];
}

const [part, ...words] = process.argv.slice(2);
if (part) {
  await watchAll();
  console.log(JSON.stringify(await parts[part](...words)));
  process.exit(0);
}
console.log(JSON.stringify(all()));
