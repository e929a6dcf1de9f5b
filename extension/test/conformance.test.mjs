// The same journals through Pi and through the runtime; whole simulated sessions through Pi, the addon and the overlay.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { corners, randomSession } from "../../golden/pi/journals.mjs";
import { load } from "../dist/native.js";
import { layOver } from "../dist/overlay.js";
import { folder, pi } from "./world.mjs";

// Not everything that decides on a compaction is exported by the package.
const compaction = await import(new URL("../node_modules/@earendil-works/pi-coding-agent/dist/core/compaction/compaction.js", import.meta.url).href);
const { Fold } = load();

/** What `cargo xtask conform` says, line by line. */
async function* conform(...words) {
  const [program, ...first] = process.env.XTASK ? [process.env.XTASK] : ["cargo", "xtask"];
  const child = spawn(program, [...first, "conform", ...words], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  try {
    // Not by readline, to which U+2028 is the end of a line.
    let rest = "";
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      const whole = (rest + chunk).split("\n");
      rest = whole.pop();
      for (const line of whole) yield JSON.parse(line);
    }
  } finally {
    child.kill();
  }
  assert.equal(await ended, 0, `conform ${words.join(" ")}`);
}

/** A message as JSON has it: a field that is undefined is none. */
const plain = (message) => JSON.parse(JSON.stringify(message));

/** The whole message that a role and a content of ours stand for, as Pi makes it of an entry. */
function whole(entry, role, form, content) {
  const timestamp = new Date(entry.timestamp).getTime();
  if (form === "whole") return content;
  if (role === "compactionSummary") return { role, summary: content, tokensBefore: entry.tokensBefore, timestamp };
  if (role === "branchSummary") return { role, summary: content, fromId: entry.fromId, timestamp };
  const shown = form === "text" ? [{ type: "text", text: content }] : content;
  if (entry.type === "custom_message") {
    const { customType, display, details } = entry;
    return { role, customType, content: shown, display, details, timestamp };
  }
  return { ...entry.message, content: shown };
}

/** What a projection of Pi's shows: entry by entry, message by message. */
const shownBy = (projection) => projection.entries.flatMap(({ sourceEntry, messages }) => messages.map((message) => [sourceEntry, message]));

// ---- random journals ---------------------------------------------------------------------------------------------------------------------

const JOURNALS = 2_000;

/** The lines of a file that Pi reads as entries. */
function linesOfEntries(lines) {
  const isEntry = (line) => {
    try {
      const read = JSON.parse(line);
      return Boolean(read) && read.type !== "session";
    } catch {
      return false;
    }
  };
  return lines.flatMap((line, index) => (isEntry(line) ? [index] : []));
}

const WITHOUT_CONTENT = new Set(["bashExecution", "branchSummary", "compactionSummary"]);

/**
 * What Pi shows of a session: entries and messages. Where a message or its replacement has no content Pi shows none, which no wire takes, and we an
 * empty one.
 */
function shownByPi(manager) {
  const lacks = (message) => message.content == null && !WITHOUT_CONTENT.has(message.role);
  const contents = ([entry, message]) => [entry, lacks(message) ? { ...message, content: [] } : message];
  return shownBy(manager.buildSessionProjection()).map(contents);
}

/** The first difference between what Pi shows of a file and what we show, in words; `undefined` where there is none. */
function difference(pis, lineOf, ours) {
  for (let at = 0; at < Math.max(pis.length, ours.length); at += 1) {
    if (!pis[at] || !ours[at]) return `${ours.length} messages, and ${pis.length} in Pi`;
    const [entry, message] = pis[at];
    const [line, role, form, content] = ours[at];
    if (lineOf.get(entry) !== line) return `message ${at} is of line ${line}, and of line ${lineOf.get(entry)} in Pi`;
    if (message.role !== undefined && message.role !== role) return `message ${at} is of ${role}, and of ${message.role} in Pi`;
    const [theirs, made] = [plain(message), plain(whole(entry, role, form, content))];
    if (!isDeepStrictEqual(made, theirs)) return `message ${at} is ${JSON.stringify(made)}, and ${JSON.stringify(theirs)} in Pi`;
  }
  return undefined;
}

test("random journals of every kind of entry show the same messages of the same entries in Pi and in the runtime", async () => {
  const base = folder();
  const place = join(base, "journals");
  mkdirSync(place);
  const journals = new Map();
  const put = (name, lines) => {
    journals.set(name, lines);
    writeFileSync(join(place, name), `${lines.join("\n")}\n`);
  };
  // Where an entry has no id Pi shows it; it cannot be addressed, so we report it and leave it out.
  for (const [name, lines] of Object.entries(corners())) if (name !== "leaf-without-id") put(`corner-${name}.jsonl`, lines);
  for (let seed = 1; seed <= JOURNALS; seed += 1) {
    const version = seed % 12 === 4 ? 1 : seed % 12 === 7 ? 2 : 3;
    put(`${String(seed).padStart(5, "0")}-v${version}.jsonl`, randomSession(seed, version, true));
  }
  const ours = new Map();
  for await (const [name, messages] of conform("project", place)) ours.set(name, messages);
  const seen = { messages: 0, edited: 0, compacted: 0, caught: 0 };
  const different = [];
  for (const [name, lines] of journals) {
    // Opened only now: Pi writes files of older versions anew.
    const manager = pi.SessionManager.open(join(place, name), base, base);
    const numbers = linesOfEntries(lines);
    const lineOf = new Map(manager.getEntries().map((entry, index) => [entry, numbers[index]]));
    const pis = shownByPi(manager);
    const found = difference(pis, lineOf, ours.get(name));
    if (found) different.push(`${name}: ${found}`);
    seen.messages += pis.length;
    seen.compacted += pis[0]?.[0].type === "compaction" ? 1 : 0;
    // The comparison itself: without the last edit, Pi's window is another one, and that is seen.
    const edit = manager.getBranch().findLast((entry) => entry.type === "context_edit");
    if (!edit) continue;
    edit.targetId = "nowhere";
    const without = shownByPi(manager);
    const bites = JSON.stringify(without.map(([, message]) => message)) !== JSON.stringify(pis.map(([, message]) => message));
    seen.edited += bites ? 1 : 0;
    seen.caught += bites && difference(without, lineOf, ours.get(name)) ? 1 : 0;
  }
  assert.deepEqual(different.slice(0, 5), [], `${different.length} of ${journals.size} journals`);
  assert.equal(seen.caught, seen.edited);
  const enough = journals.size >= 2_000 && seen.messages > 15_000 && seen.edited > 800 && seen.compacted > 300;
  assert.ok(enough, `too little to prove anything: ${JSON.stringify(seen)}`);
});

// ---- simulated sessions ------------------------------------------------------------------------------------------------------------------

/** A line with its strings spelled as Pi does: nasty texts of the simulator hold escapes where Pi writes characters, so that readers meet both. */
const spelled = (line) => line.replace(/"(?:[^"\\]|\\.)*"/g, (string) => JSON.stringify(JSON.parse(string)));

/** A simulated session as real Pi and the real addon hold it, request by request. */
class Session {
  entries = [];
  byId = new Map();
  lineOf = new Map();
  sent = [];
  #branch = [];
  #fold;
  #under = "";

  /** Takes what was written since the request before, and the messages that the simulator sent. */
  take({ leaf, from }, written, messages) {
    for (const line of written) {
      const entry = JSON.parse(line);
      assert.equal(JSON.stringify(entry), spelled(line), "the simulator writes a line as Pi does");
      this.entries.push(entry);
      this.byId.set(entry.id, entry);
      this.lineOf.set(entry, line);
    }
    this.leaf = leaf;
    const fresh = messages.map(([id, role, form, content]) => [id, plain(whole(this.byId.get(id), role, form, content))]);
    this.sent = [...this.sent.slice(0, from), ...fresh];
    this.projection = pi.buildSessionProjection(this.entries, leaf, this.byId);
    const path = [];
    for (let at = this.byId.get(leaf); at; at = this.byId.get(at.parentId)) path.push(at);
    this.branch = path.reverse();
  }

  /** What the extension shows: Pi's messages under what the addon wants shown over them. The addon is handed what the branch has grown by. */
  async request({ settings, window }) {
    const under = `${window} ${settings}`;
    const goes = this.#fold && under === this.#under && this.#branch.every((entry, index) => entry === this.branch[index]);
    const news = Buffer.from(this.branch.slice(goes ? this.#branch.length : 0).map((entry) => `${this.lineOf.get(entry)}\n`).join(""));
    if (goes) await this.#fold.turn(news, null);
    else this.#fold = await Fold.open(news, settings, window);
    [this.#branch, this.#under] = [this.branch, under];
    const { overlay, lost } = JSON.parse(await this.#fold.request());
    assert.deepEqual(lost, []);
    const laid = layOver(this.projection.messages, overlay, { buildSessionProjection: () => this.projection });
    assert.deepEqual(laid.unmatched.filter((id) => shownBy(this.projection).some(([entry]) => entry.id === id)), []);
    return { messages: laid.messages, overlay };
  }
}

/** Pairs of messages that are known to be equal: Pi gives the same object for the same entry again. */
const equal = new WeakMap();

/** Where two requests part; -1 where they do not. */
function parts(sent, shown) {
  const same = (ours, theirs) => {
    if (theirs === undefined || equal.get(theirs) === ours) return theirs !== undefined;
    const is = isDeepStrictEqual(ours, plain(theirs));
    if (is) equal.set(theirs, ours);
    return is;
  };
  const at = sent.findIndex(([, message], index) => !same(message, shown[index]));
  return at >= 0 || sent.length === shown.length ? at : sent.length;
}

/** Simulated sessions of an arm, each request in Pi: how many there were, and where they differ. */
async function simulated(arm, seeds) {
  const seen = { requests: 0, laid: 0, caught: 0, compacts: 0, compacted: 0, cuts: 0, split: 0, sessions: new Set(), different: [] };
  let [session, name] = [undefined, ""];
  for await (const [seed, facts, written, messages] of conform("record", "--arm", arm, "--seeds", seeds)) {
    const here = `${seed} ${facts.session}`;
    if (here !== name) [session, name] = [new Session(), here];
    session.take(facts, written, messages);
    seen.requests += 1;
    seen.compacted += session.branch.some((entry) => entry.type === "compaction") ? 1 : 0;
    seen.sessions.add(seed);
    const { messages: shown, overlay } = arm === "fold" ? await session.request(facts) : { messages: session.projection.messages, overlay: [] };
    const differs = (what, ours, theirs) => {
      const short = (value) => JSON.stringify(value)?.slice(0, 300);
      if (isDeepStrictEqual(ours, theirs)) return;
      seen.different.push(`${arm} ${here}, request ${seen.requests}: ${what} ${short(ours)}, in Pi ${short(theirs)}`);
    };
    const at = parts(session.sent, shown);
    if (at >= 0) differs(`message ${at} of ${session.sent[at]?.[0]}`, session.sent[at]?.[1], shown[at]);
    // The comparison itself: where something is promised, Pi's window alone is another one.
    if (overlay.length > 0) {
      seen.laid += 1;
      seen.caught += parts(session.sent, session.projection.messages) < 0 ? 0 : 1;
    }
    const { tokens } = compaction.estimateProjectedContextTokens(session.projection, session.branch);
    differs("estimate", facts.estimate, tokens);
    const settings = { enabled: true, reserveTokens: facts.reserve, keepRecentTokens: facts.keep };
    differs("compacts", facts.compacts, pi.shouldCompact(tokens, facts.window, settings));
    const cut = compaction.prepareCompaction(session.branch, settings);
    differs("cut", facts.cut, cut ? [cut.firstKeptEntryId, cut.messagesToSummarize.length, cut.turnPrefixMessages.length] : null);
    seen.compacts += facts.compacts ? 1 : 0;
    seen.cuts += cut ? 1 : 0;
    seen.split += cut?.isSplitTurn ? 1 : 0;
  }
  return seen;
}

test("every request of simulated sessions is the one that Pi, the addon and the overlay make of the same journal", async () => {
  const [fold, native] = await Promise.all([simulated("fold", "0..50"), simulated("native", "0..10")]);
  for (const { different } of [fold, native]) assert.deepEqual(different.slice(0, 5), [], `${different.length} differences`);
  assert.equal(fold.caught, fold.laid);
  const decisions = fold.compacts > 50 && fold.cuts > 1_000 && fold.split > 500 && native.compacted > 50;
  assert.ok(fold.sessions.size >= 50 && fold.requests > 2_000 && fold.laid > 100 && decisions, "too little to prove anything");
});
