// What is outside goes wrong: the store of second copies, the disk, another Pi. The session is never the worse for it.

import assert from "node:assert/strict";
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { client, commits, edits, entries, run, sessions, sound, steps, world } from "./cli.mjs";
import { WIRES, rewrites } from "./wires.mjs";
import * as within from "./world.mjs";

const together = { concurrency: 3 };

/** Work enough for a commit. */
const work = (from = 0) => [...steps(6, from, 9_000), { text: "done" }];

const store = ({ folder }) => join(folder, "pi-fold.sqlite");

/** The database of second copies, opened by somebody else. */
function peeked(place, looks) {
  const database = new DatabaseSync(store(place));
  try {
    return looks(database);
  } finally {
    database.close();
  }
}

/** Every original that the sessions of a home have folded has its second copy. */
function holdsAll(place) {
  const rows = peeked(place, (database) => database.prepare("select digest, line from originals").all());
  const kept = new Map(rows.map(({ digest, line }) => [Buffer.from(digest).toString("hex"), Buffer.from(line).toString()]));
  let folded = 0;
  for (const file of sessions(place)) {
    const lines = new Map(entries(file).map((entry) => [entry.id, JSON.stringify(entry)]));
    for (const [id, digest] of commits(entries(file)).flatMap(({ folds }) => folds.flatMap(({ parts }) => parts))) {
      assert.equal(kept.get(digest), lines.get(id), `the second copy of ${id}`);
      folded += 1;
    }
  }
  assert.ok(folded > 0);
  return folded;
}

/** Bytes over a file that is there, and stays the same file. */
function overwrite(file, from = 0) {
  const handle = openSync(file, "r+");
  writeSync(handle, Buffer.alloc(statSync(file).size - from, 7), 0, undefined, from);
  closeSync(handle);
}

/** What an extension told a client. */
const told = (rpc) => rpc.seen.filter(({ type, method }) => type === "extension_ui_request" && method === "notify").map(({ message }) => message);

/** A step that peeks at the first fold of a session. */
function peek(place) {
  const [{ folds }] = commits(entries(sessions(place)[0]));
  return { text: "look", calls: [{ name: "pi_fold_context", args: { action: "peek", id: folds[0].id } }] };
}

describe("the store of second copies", together, () => {
  test("serves two Pi processes at once: both fold, neither errs, and both have their second copies", async (context) => {
    const one = await world(context, WIRES.chat, [...work(), ...work(6)]);
    const other = await world(context, WIRES.messages, [...work(), ...work(6)], one.place.folder);
    const done = await Promise.all([one, other].map(({ place }) => run(place, ["-p", "go", "and on"])));
    for (const { status, stdout, stderr } of done) assert.deepEqual([status, stdout, stderr], [0, "done\n", ""]);
    const files = sessions(one.place);
    assert.equal(files.length, 2);
    const api = (file) => entries(file).find(({ message }) => message?.role === "assistant").message.api;
    for (const made of [one, other]) {
      const file = files.find((path) => api(path) === made.mock.wire.api);
      assert.ok(commits(sound(made, file)).length > 0);
    }
    holdsAll(one.place);
  });

  test("where something else has its name: told once, folding goes on, and the store is made when there is room for it", async (context) => {
    const list = work();
    const made = await world(context, WIRES.chat, list);
    mkdirSync(store(made.place));
    const rpc = client(made.place);
    await rpc.prompt("go");
    assert.equal(commits(sound(made)).length, 1);
    const [words, ...more] = told(rpc);
    assert.match(words, /^pi-fold: the store of second copies, .*pi-fold\.sqlite: /);
    assert.deepEqual(more, []);
    list.push(peek(made.place), { text: "seen" }, ...work(6));
    await rpc.prompt("look");
    assert.ok(JSON.stringify(made.mock.requests.at(-1)).includes("RESULT of x0 yyy"), "the peek gives the original without a store");
    rmSync(store(made.place), { recursive: true });
    await rpc.prompt("and on");
    assert.deepEqual(told(rpc), [words]);
    const { status, stderr } = await rpc.end();
    assert.deepEqual([status, stderr], [0, ""]);
    sound(made);
    holdsAll(made.place);
  });

  test("damaged while it was closed: set aside as it is, made anew with every fold, told once; originals come from the session", async (context) => {
    const list = work();
    const made = await world(context, WIRES.chat, list);
    await run(made.place, ["-p", "go"]);
    overwrite(store(made.place));
    const bytes = readFileSync(store(made.place));
    list.push(peek(made.place), ...work(6));
    const { status, stdout, stderr } = await run(made.place, ["-p", "-c", "look"]);
    assert.deepEqual([status, stdout], [0, "done\n"]);
    assert.match(stderr, /^pi-fold: the store of second copies, .*pi-fold\.sqlite, was damaged .*pi-fold\.sqlite\.damaged-1,.*\n$/);
    assert.deepEqual(readFileSync(`${store(made.place)}.damaged-1`), bytes);
    assert.ok(JSON.stringify(made.mock.requests[8]).includes("RESULT of x0 yyy"), "the peek gives the original");
    assert.ok(commits(sound(made)).length >= 2);
    holdsAll(made.place);
  });

  test("damaged while it is open: set aside, made anew with every fold, told once; folding goes on", async (context) => {
    const list = work();
    const made = await world(context, WIRES.chat, list);
    await run(made.place, ["-p", "go"]);
    list.push({ text: "open" }, peek(made.place), ...work(6));
    const rpc = client(made.place, ["-c"]);
    await rpc.prompt("open it");
    // SQLite looks at the file again when somebody else has written to it.
    peeked(made.place, (database) => database.exec("insert into originals values (x'00', x'00'); pragma wal_checkpoint(truncate)"));
    overwrite(store(made.place));
    await rpc.prompt("look");
    const { status, stderr } = await rpc.end();
    assert.deepEqual([status, stderr], [0, ""]);
    const [words, ...more] = told(rpc);
    assert.match(words, /pi-fold\.sqlite\.damaged-1/);
    assert.deepEqual(more, []);
    assert.ok(commits(sound(made)).length >= 2);
    holdsAll(made.place);
  });

  test("deleted while it is open: made anew with every fold, told once; folding goes on", async (context) => {
    const made = await world(context, WIRES.chat, [...work(), ...work(6)]);
    const rpc = client(made.place);
    await rpc.prompt("go");
    const before = holdsAll(made.place);
    for (const name of readdirSync(made.place.folder).filter((name) => name.startsWith("pi-fold.sqlite"))) rmSync(join(made.place.folder, name));
    await rpc.prompt("and on");
    const { status, stderr } = await rpc.end();
    assert.deepEqual([status, stderr], [0, ""]);
    const [words, ...more] = told(rpc);
    assert.match(words, /pi-fold\.sqlite, was taken away/);
    assert.deepEqual(more, []);
    assert.ok(commits(sound(made)).length >= 2);
    assert.ok(holdsAll(made.place) > before);
  });
});

test("a file-size limit that the store meets is told once and ends nothing: folding goes on, and the session is whole", async (context) => {
  const made = await world(context, WIRES.chat, [...work(), ...steps(1, 6, 9_000), { text: "done" }]);
  // Another writer has made the store's log longer than the limit, and keeps it so; Pi alone stays below.
  const other = new DatabaseSync(store(made.place));
  context.after(() => other.isOpen && other.close());
  other.exec("pragma journal_mode = wal; create table originals (digest blob primary key, line blob not null) without rowid");
  other.exec("insert into originals values (x'00', zeroblob(200000))");
  const { status, stdout, stderr } = await run(made.place, ["-p", "go", "and on"], { shell: "ulimit -f 150" });
  other.close();
  assert.match(stderr, /^pi-fold: \d+ folded originals have no second copy \(.*\)\. The journal holds them; .*\n$/);
  assert.deepEqual([status, stdout], [0, "done\n"]);
  const before = sound(made).length;
  // With room again, the next process fills the store.
  const again = await run(made.place, ["-p", "-c", "once more"]);
  assert.deepEqual([again.status, again.stdout, again.stderr], [0, "done\n", ""]);
  assert.ok(sound(made).length > before);
  holdsAll(made.place);
});

test("a file-size limit that the session meets in the middle of a commit: the next process completes it and loses no whole line", async (context) => {
  // The limit counts in kilobytes: where the edits of this commit are in the file is looked up first.
  const whole = await world(context, WIRES.chat, work());
  await run(whole.place, ["-p", "go"]);
  const text = readFileSync(sessions(whole.place)[0], "utf8");
  const [first, last] = [text.indexOf("\n", text.indexOf('"pi-fold.commit"')), text.lastIndexOf('"context_edit"')];
  const limit = Math.ceil(first / 1_024) + 1;
  assert.ok(limit * 1_024 < last, "a whole kilobyte of edits");

  const made = await world(context, WIRES.chat, work());
  const torn = await run(made.place, ["-p", "go"], { shell: `ulimit -f ${limit}` });
  assert.deepEqual([torn.status, torn.stdout], [1, ""]);
  assert.match(torn.stderr, /^EFBIG: file too large/);
  const [file] = sessions(made.place);
  const before = readFileSync(file, "utf8");
  assert.ok(!before.endsWith("\n"), "Pi has torn a line");
  const there = before.slice(0, before.lastIndexOf("\n") + 1);
  const again = await run(made.place, ["-p", "-c", "go on"]);
  assert.deepEqual([again.status, again.stdout, again.stderr], [0, "done\n", ""]);
  const after = readFileSync(file, "utf8");
  assert.ok(after.startsWith(before));
  const list = [...there.split("\n"), ...after.slice(before.length).split("\n")].filter((line) => line !== "").map((line) => JSON.parse(line));
  const [commit, ...more] = commits(list);
  assert.deepEqual(more, []);
  const targets = edits(list).map(({ targetId }) => targetId);
  assert.deepEqual(targets.sort(), commit.edits.map(({ target }) => target).sort(), "each promised edit is written once");
  assert.deepEqual([made.mock.refused, rewrites(made.mock, made.mock.requests)], [[], 1]);
});

/** A folder on a disk that has so many megabytes left, and what a person is told. */
function onDisk(context, free) {
  const { statfs } = fs;
  fs.statfs = async (path) => ({ ...(await statfs(path)), bavail: free(), bsize: 1_024 * 1_024 });
  const words = [];
  const { write } = process.stderr;
  process.stderr.write = (text) => words.push(String(text));
  syncBuiltinESMExports();
  const path = within.folder();
  context.after(() => {
    fs.statfs = statfs;
    process.stderr.write = write;
    syncBuiltinESMExports();
    rmSync(path, { recursive: true, force: true });
  });
  return { path, words };
}

test("where the disk is nearly full neither the fence nor /fold nor a call of the tool appends a record; each says why", async (context) => {
  const { path, words } = onDisk(context, () => 0);
  const made = await within.open(path);
  const list = within.steps(70);
  const result = ({ message }) => message?.role === "toolResult";
  list[20] = () => {
    const call = { action: "pin", ids: [made.sessionManager.getBranch().find(result).id] };
    return within.ai.fauxAssistantMessage([within.ai.fauxToolCall("pi_fold_context", call, { id: "pins" })], { stopReason: "toolUse" });
  };
  within.answers(made, list);
  await made.session.prompt("go");
  await made.session.prompt("/fold");
  assert.deepEqual(made.errors, []);
  assert.deepEqual(within.records(made.sessionManager), []);
  assert.ok(made.sessionManager.getBranch().every(({ customType }) => !customType?.startsWith("pi-fold.")), "no entry of ours at all");
  const text = words.join("");
  assert.match(text, /nothing to fold: Nothing is folded now: .* has too little space left/);
  assert.match(text, /the request was not sent/);
  const pinned = made.sessionManager.getBranch().filter(result).find(({ message }) => message.toolName === "pi_fold_context");
  assert.match(pinned.message.content[0].text, /^Nothing is folded now/);
  made.session.dispose();
});

test("where the disk is nearly full no boundary folds, which is told once; with room again folding begins", async (context) => {
  let free = 15;
  const { path, words } = onDisk(context, () => free--);
  // The band is reached at the fifty-third request and the fence a few later; in between there is room again.
  const made = await within.open(path);
  const list = within.steps(60);
  const call = list[54];
  list[54] = () => ((free = 1_000), call);
  within.answers(made, list);
  await made.session.prompt("go");
  assert.deepEqual(made.errors, []);
  assert.equal(words.filter((text) => text.includes("Nothing is folded now")).length, 1, `told once: ${words}`);
  assert.deepEqual(
    within.records(made.sessionManager).map(({ trigger }) => trigger),
    ["band"],
  );
  made.session.dispose();
});
