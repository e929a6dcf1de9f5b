// The real command line, in each of its modes, over each wire: what is sent, what is printed, and what is left after a failure.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { client, commits, edits, entries, records, run, sessions, sound, steps, world } from "./cli.mjs";
import { WIRES } from "./wires.mjs";
import { pi, unpaired } from "./world.mjs";

const [KILL, STALL] = ["kill.js", "stall.js"].map((name) => fileURLToPath(new URL(name, import.meta.url)));

/** Processes at once: they share few cores with whatever else runs. */
const together = { concurrency: 3 };

// Small results let a boundary commit at the band, large ones make the fence do it.
const small = (from) => [...steps(4, from, 11_000), ...steps(6, from + 4, 3_500)];
const session = [...small(0), { text: "half of it" }, ...steps(4, 10, 14_000), { text: "the answer" }];

const several = (list) => assert.deepEqual([...new Set(commits(list).map(({ trigger }) => trigger))].sort(), ["band", "fence"]);

describe("a session with several commits", together, () => {
  for (const [name, wire] of Object.entries(WIRES)) {
    test(`over ${name} in print mode prints the answer and nothing else`, async (context) => {
      const made = await world(context, wire, session);
      const { status, stdout, stderr } = await run(made.place, ["-p", "go", "and on"]);
      assert.deepEqual([status, stdout, stderr], [0, "the answer\n", ""]);
      several(sound(made));
    });

    test(`over ${name} in JSON mode prints JSON lines and nothing else`, async (context) => {
      const made = await world(context, wire, session);
      const { status, stdout, stderr } = await run(made.place, ["--mode", "json", "go", "and on"]);
      assert.deepEqual([status, stderr], [0, ""]);
      const lines = records(stdout);
      assert.ok(stdout.endsWith("\n"), "no line is cut off");
      assert.deepEqual([lines.at(0).type, lines.at(-1).type], ["session", "agent_settled"]);
      assert.deepEqual(
        lines.filter(({ type }) => type === "extension_error"),
        [],
      );
      several(sound(made));
    });

    test(`over ${name} in RPC mode prints JSON lines and nothing else, and tells the client how the window stands`, async (context) => {
      const made = await world(context, wire, session);
      const rpc = client(made.place);
      await rpc.prompt("go");
      await rpc.prompt("and on");
      await rpc.command({ type: "prompt", message: "/fold-status" });
      const told = await rpc.until(({ type, method }) => type === "extension_ui_request" && method === "notify");
      assert.match(told.message, /^pi-fold: /);
      const { status, stdout, stderr } = await rpc.end();
      assert.deepEqual([status, stderr], [0, ""]);
      const lines = records(stdout);
      assert.ok(stdout.endsWith("\n"), "no line is cut off");
      assert.deepEqual(
        lines.filter(({ type }) => type === "extension_error"),
        [],
      );
      assert.equal(lines.filter(({ type }) => type === "extension_ui_request").length, 1, "no message but the one that was asked for");
      several(sound(made));
    });
  }
});

describe("what goes wrong at the provider", together, () => {
  for (const [name, wire] of Object.entries(WIRES)) {
    test(`over ${name}: an overflow is folded and sent again once; after a 429 and a cut stream the same request is sent again`, async (context) => {
      const list = [
        ...steps(6),
        { overflow: true },
        ...steps(1, 6),
        { limited: 0 },
        ...steps(1, 7),
        { ...steps(1, 8)[0], cut: true },
        { text: "done" },
      ];
      const made = await world(context, wire, list);
      const { status, stdout, stderr } = await run(made.place, ["-p", "go"]);
      assert.deepEqual([status, stdout, stderr], [0, "done\n", ""]);
      const branch = sound(made);
      assert.deepEqual(
        commits(branch).map(({ trigger }) => trigger),
        ["overflow"],
      );
      const { requests } = made.mock;
      assert.equal(requests.length, list.length, "each step is one request");
      const sent = requests.map((body) => JSON.stringify(wire.prompt(body)));
      const at = (step) => list.findIndex((one) => one[step] !== undefined);
      assert.ok(sent[at("overflow") + 1].length < sent[at("overflow")].length / 2, "the request after the overflow is folded");
      assert.equal(sent[at("limited") + 1], sent[at("limited")]);
      assert.equal(sent[at("cut") + 1], sent[at("cut")]);
    });

    test(`over ${name}: what a person aborts is not continued, not even by a commit that asks again; the next prompt goes on`, async (context) => {
      const list = [...steps(6), { overflow: true }, { hang: true }, { text: "well" }];
      const made = await world(context, wire, list);
      const rpc = client(made.place);
      await rpc.command({ type: "prompt", message: "go" });
      await made.mock.arrived(8);
      await rpc.command({ type: "abort" });
      const { aborted } = await rpc.settled(1);
      assert.ok(aborted);
      await sleep(200);
      assert.equal(made.mock.requests.length, 8, "nothing is sent after the abort");
      assert.equal(made.mock.broken, 1, "the request that hung was given up");
      await rpc.prompt("go on");
      assert.equal(made.mock.requests.length, 9);
      const { status, stderr } = await rpc.end();
      assert.deepEqual([status, stderr], [0, ""]);
      assert.deepEqual(
        commits(sound(made)).map(({ trigger }) => trigger),
        ["overflow"],
      );
    });
  }

  for (const moment of ["turn_end", "session_before_compact", "agent_before_settle"]) {
    test(`an abort between an overflow and its second request, at ${moment}, stands: no commit asks again`, async (context) => {
      const made = await world(context, WIRES.chat, [...steps(6), { overflow: true }, { text: "asked again" }]);
      const rpc = client(made.place, [], { before: [STALL], env: { PI_FOLD_TEST_STALL: moment } });
      await rpc.command({ type: "prompt", message: "go" });
      await rpc.until(({ message }) => message === "stalled");
      await rpc.command({ type: "abort" });
      assert.ok((await rpc.settled(1)).aborted);
      await sleep(200);
      assert.equal(made.mock.requests.length, 7);
      const { status, stderr } = await rpc.end();
      assert.deepEqual([status, stderr], [0, ""]);
    });
  }
});

/** Ids are random: those of entries and folds become their numbers, so that two sessions can be compared. */
function alike(text, file, place) {
  let plain = text.replaceAll(place.path, "HOME").replace(/\d{4}-\d\d-\d\d/g, "DAY");
  for (const [at, { id }] of entries(file).entries()) plain = plain.replaceAll(id, `entry${at}`);
  for (const [at, { id }] of commits(entries(file))
    .flatMap(({ folds }) => folds)
    .entries())
    plain = plain.replaceAll(id, `fold${at}`);
  return plain;
}

/** A run that is killed once the first commit has so many edits in the session file, and goes on in another process. */
async function killed(context, wire, list, edit) {
  const made = await world(context, wire, [...list, { text: "done" }]);
  const { mock, place } = made;
  const first = await run(place, ["-p", "go"], { after: [KILL], env: { PI_FOLD_TEST_KILL: String(edit) } });
  assert.equal(first.signal, "SIGKILL");
  const [file] = sessions(place);
  const before = readFileSync(file, "utf8");
  const torn = records(before);
  const [commit] = commits(torn);
  assert.deepEqual([commits(torn).length, edits(torn).length], [1, edit], "the record and so many edits are in the file");
  // Without the extension a torn commit shows as it stands. Pi answers a call that has no result itself; a result without its call it sends on.
  const { messages } = pi.SessionManager.open(file).buildSessionProjection();
  assert.deepEqual(
    unpaired(messages).filter((words) => words.startsWith("result")),
    [],
  );

  const sent = mock.requests.length;
  const second = await run(place, ["-p", "-c", "go on"]);
  assert.deepEqual([second.status, second.stdout, second.stderr], [0, "done\n", ""]);
  assert.deepEqual(sessions(place), [file]);

  assert.ok(readFileSync(file, "utf8").startsWith(before), "what was there is there, byte for byte");
  const whole = sound(made);
  assert.equal(commits(whole).length, 1, "no second commit is made of the first one's work");
  assert.ok(
    edits(whole).some(({ replacement }) => replacement === null),
    "some of them take messages away",
  );
  const promised = commit.edits.map(({ target }) => target).sort();
  assert.deepEqual(
    edits(whole)
      .map(({ targetId }) => targetId)
      .sort(),
    promised,
    "each promised edit is written once",
  );
  const lines = new Map(
    before
      .split("\n")
      .slice(0, -1)
      .map((line) => [JSON.parse(line).id, line]),
  );
  for (const [id, digest] of commit.folds.flatMap(({ parts }) => parts)) {
    assert.equal(createHash("sha256").update(lines.get(id)).digest("hex"), digest, `${id} is what was folded`);
  }
  return { request: alike(JSON.stringify(wire.prompt(mock.requests[sent])), file, place), edits: promised.length };
}

// Both commits hide spans, whose other results and messages are taken away one by one. Wires take turns: what differs from state to state is in the
// session, not in how it is sent. How many edits a commit has is looked at, since with another number some states would be left out.
const COMMITS = [
  { where: "at the band", list: [...steps(3, 0, 4_000), ...steps(2, 3, 14_000), ...steps(4, 5, 3_000)], all: 8, over: ["chat", "messages"] },
  { where: "at the fence", list: [...steps(3, 0, 4_000), ...steps(2, 3, 18_000), ...steps(2, 5, 3_000)], all: 6, over: ["responses", "gemini"] },
];

for (const { where, list, all, over } of COMMITS) {
  describe(`Pi killed in the middle of a commit ${where}`, together, () => {
    const whole = new Map();
    for (let edit = 0; edit < all; edit += 1) {
      const name = over[edit % over.length];
      test(`after its record and ${edit} edits: over ${name} it goes on with the bytes of a whole commit, and completes it`, async (context) => {
        const uncut = whole.get(name) ?? killed(context, WIRES[name], list, all);
        whole.set(name, uncut);
        const [made, { request, edits }] = await Promise.all([killed(context, WIRES[name], list, edit), uncut]);
        assert.equal(edits, all);
        assert.equal(made.request, request);
      });
    }
  });
}
