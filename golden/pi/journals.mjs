// Invented session journals: random ones by a seed, and corners written by hand. The same seed gives the same bytes.
//
// The fixtures are made of the plain ones. Wild ones are longer and have what Pi itself would not write but reads: leaves anywhere in the
// tree, more roots, replacements of every shape, messages without a content, roles and blocks nobody knows, lines in another spelling.

// ---------------------------------------------------------------- randomness
export function prng(seed) {
  let s = seed >>> 0;
  const next = () => {
    s = (s + 0x9e3779b9) >>> 0;
    let z = s;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
  const r = {
    int: (n) => next() % n,
    chance: (pct) => next() % 100 < pct,
    pick: (a) => a[next() % a.length],
    weighted: (pairs) => {
      let n = next() % pairs.reduce((t, p) => t + p[1], 0);
      for (const [v, w] of pairs) if ((n -= w) < 0) return v;
    },
    hex: () => next().toString(16).padStart(8, "0"),
  };
  return r;
}

const WORDS = "red barn small river count apples fold paper lamp north tidy stone quiet bird green door walk seven maps ink".split(" ");
const SPICE = ["naïve café", "日本語", "🦊 fox", "tab\there", "two\nlines", 'say "hi"', "back\\slash", "a\u2028b"];
const PNG = "iVBORw0KGgoAAAANSUhEUg==";

function words(r, max = 6) {
  const out = [];
  for (let n = 1 + r.int(max); n > 0; n--) out.push(r.chance(6) ? r.pick(SPICE) : r.pick(WORDS));
  // Unpaired halves: JSON.stringify writes them as \ud83d / \udca9 escapes.
  if (r.chance(2)) out.push("cut\ud83d");
  else if (r.chance(1)) out.push("\udca9tail");
  return out.join(" ");
}

const text = (t) => ({ type: "text", text: t });
const image = () => ({ type: "image", data: PNG, mimeType: "image/png" });
const usage = (r) => ({ input: r.int(900), output: r.int(90) });
const T0 = 1700000000000;
const stamp = (n) => new Date(T0 + n * 1000).toISOString();

function textBlocks(r) {
  const out = [text(words(r))];
  if (r.chance(30)) out.push(text(words(r, 3)));
  if (r.chance(25)) out.splice(r.int(out.length + 1), 0, image());
  return out;
}

function systemMessage(r, n) {
  const m = { role: "system", content: r.chance(70) ? words(r) : "", timestamp: T0 + n };
  if (r.chance(50)) {
    m.sections = { [r.pick(["rules", "style", "env"])]: words(r, 4) };
    if (r.chance(30)) m.sections[r.pick(["rules", "old"])] = null;
  }
  if (r.chance(40)) {
    m.toolsAdded = [{ name: r.pick(["peek", "poke"]), description: words(r, 3), parameters: { type: "object", properties: {} } }];
  }
  if (r.chance(15)) m.toolsRemoved = [{ name: "poke" }];
  return m;
}

function assistant(r, n, calls) {
  const content = [];
  if (r.chance(30)) content.push({ type: "thinking", thinking: words(r), ...(r.chance(50) ? { thinkingSignature: "sig" + r.int(99) } : {}) });
  if (r.chance(75)) content.push(text(words(r)));
  let stop = r.weighted([["stop", 5], ["toolUse", 6], ["error", 1], ["aborted", 1], ["length", 1]]);
  if (stop === "toolUse" || r.chance(15)) {
    for (let k = 1 + r.int(2); k > 0; k--) {
      const c = { type: "toolCall", id: "call_" + r.hex().slice(0, 5), name: r.pick(["peek", "poke"]), arguments: { path: words(r, 1), n: r.int(9) } };
      content.push(c);
      calls.push(c);
    }
  }
  const m = { role: "assistant", content, api: "demo-api", provider: "demo", model: "m" + r.int(3), usage: usage(r), stopReason: stop, timestamp: T0 + n };
  if (stop === "error") m.errorMessage = words(r, 3);
  return m;
}

function toolResult(r, n, calls) {
  const c = calls.length && r.chance(90) ? calls.splice(r.int(calls.length), 1)[0] : { id: "call_gone" + r.int(9), name: "peek" };
  const content = r.chance(20) ? [image()] : [];
  if (!content.length || r.chance(60)) content.unshift(text(words(r)));
  return { role: "toolResult", toolCallId: c.id, toolName: c.name, content, isError: r.chance(15), timestamp: T0 + n };
}

function bash(r, n) {
  const m = { role: "bashExecution", command: "echo " + words(r, 2), output: r.chance(75) ? words(r) : "", exitCode: r.pick([0, 0, 0, 1, 127]), cancelled: false, truncated: false, timestamp: T0 + n };
  if (r.chance(15)) { m.cancelled = true; delete m.exitCode; }
  if (r.chance(20)) { m.truncated = true; if (r.chance(70)) m.fullOutputPath = "out/full.log"; }
  if (r.chance(25)) m.excludeFromContext = true;
  return m;
}

function custom(r, n, role) {
  return { role, customType: "note", content: r.chance(50) ? words(r) : textBlocks(r), display: r.chance(50), timestamp: T0 + n };
}

function replacement(r) {
  if (r.chance(30)) return null;
  if (r.chance(50)) return { content: "EDIT " + words(r, 3) };
  return { content: r.chance(15) ? [] : textBlocks(r) };
}

/** Replacements of every shape that Pi's projection reads; one without the field at all makes it throw. */
function wildReplacement(r) {
  const few = [[() => null, 1], [() => undefined, 1], [() => "", 2], [() => [], 2]];
  const content = r.weighted([...few, [() => words(r), 4], [() => textBlocks(r), 4], [() => wildBlocks(r), 4]])();
  const odd = [[() => ({ note: words(r, 1), content, isError: true }), 2], [() => words(r, 1), 1], [() => r.int(3), 1], [() => ({}), 1]];
  return r.weighted([[() => null, 8], [() => ({ content }), 20], ...odd])();
}

/** Blocks as other programs write them. */
function wildBlocks(r) {
  const texts = () => [{ text: "no type" }, { type: "text" }, { type: "text", text: words(r), textSignature: "s", "k\u00e9y": [null, {}] }];
  const others = () => [{ type: "toolCall", id: "call_x", name: "peek" }, { type: "thinking", thinking: words(r), redacted: true }];
  const odd = () => r.pick([{ type: "bogus", n: 1.5e3 }, image(), ...texts(), ...others()]);
  return Array.from({ length: r.int(6) }, odd);
}

/** The same value in another spelling: white space, or letters as escapes. */
function respelled(r, value) {
  if (r.chance(50)) return JSON.stringify(value, null, 1).replace(/\n/g, " ");
  const escaped = (letter) => "\\u" + letter.charCodeAt(0).toString(16).padStart(4, "0");
  return JSON.stringify(value).replace(/[a-z](?=[a-z]*")/g, (letter) => (r.chance(10) ? escaped(letter) : letter));
}

// ---------------------------------------------------------- random journals
export function randomSession(seed, version, wild = false) {
  const r = prng(seed);
  const header = { type: "session", version, id: "s" + seed, timestamp: stamp(0), cwd: "demo" };
  if (version === 1) delete header.version;
  const parsed = [header]; // what Pi will see, in order
  const lines = [JSON.stringify(header)];
  const calls = [];
  const tree = version > 1;
  const want = wild ? 8 + r.int(r.chance(10) ? 150 : 50) : 5 + r.int(36);
  let prev = null;
  const byId = new Map();
  const branchOf = (id) => {
    const out = [];
    for (let e = byId.get(id); e; e = byId.get(e.parentId)) out.push(e);
    return out.reverse();
  };
  for (let i = 1; i <= want; i++) {
    let parent = prev;
    if (tree && prev !== null) {
      if (r.chance(wild ? 5 : 7)) parent = r.pick(parsed.slice(1)).id; // fork
      else if (r.chance(wild ? 2 : 1)) parent = null; // another root
    }
    const branch = tree ? branchOf(parent) : parsed.slice(1);
    const kinds = [["user", 18], ["assistant", 22], ["toolResult", 18], ["bash", 7], ["system", 5], ["custom", 3], ["custom_message", 7], ["branch_summary", 4], ["model_change", 2], ["thinking_level_change", 2], ["label", 2], ["session_info", 2], ["usage", 2], ["mystery", 2]];
    if (version < 3) kinds.push(["oldHook", 10]);
    if (version === 3) kinds.push(["customRole", 2]);
    if (i > 3) kinds.push(["compaction", wild ? 4 : 7]);
    if (tree && branch.length) kinds.push(["context_edit", 16]);
    if (wild && tree && branch.length) kinds.push(["context_edit", 20]);
    if (wild) kinds.push(["oddMessage", 6]);
    const kind = i === 1 && r.chance(60) ? "system" : r.weighted(kinds);
    const base = tree ? { id: r.hex(), parentId: parent, timestamp: stamp(i) } : { timestamp: stamp(i) };
    const msg = (message) => ({ type: "message", ...base, message });
    let e;
    switch (kind) {
      case "system": e = msg(systemMessage(r, i)); break;
      case "user": e = msg({ role: "user", content: r.chance(50) ? words(r) : textBlocks(r), timestamp: T0 + i }); break;
      case "assistant": e = msg(assistant(r, i, calls)); break;
      case "toolResult": e = msg(toolResult(r, i, calls)); break;
      case "bash": e = msg(bash(r, i)); break;
      case "oldHook": e = msg(custom(r, i, "hookMessage")); break;
      case "customRole": e = msg(custom(r, i, "custom")); break;
      case "oddMessage": {
        const role = r.pick(["user", "assistant", "toolResult", "system", "custom", "oracle", undefined]);
        const content = r.pick([null, undefined, wildBlocks(r), words(r)]);
        e = msg({ role, content, toolCallId: "call_x", toolName: "peek", stopReason: "stop", ...(r.chance(80) ? { timestamp: T0 + i } : {}) });
        break;
      }
      case "custom": e = { type: "custom", ...base, customType: "state", data: { n: r.int(9) } }; break;
      case "custom_message": e = { type: "custom_message", ...base, customType: "hint", content: r.chance(50) ? words(r) : textBlocks(r), display: r.chance(50) }; break;
      case "branch_summary": e = { type: "branch_summary", ...base, fromId: "root", summary: r.chance(90) ? "BS " + words(r) : "" }; break;
      case "model_change": e = { type: kind, ...base, provider: "demo", modelId: "m" + r.int(3) }; break;
      case "thinking_level_change": e = { type: kind, ...base, thinkingLevel: r.pick(["off", "low", "high"]) }; break;
      case "label": e = { type: kind, ...base, targetId: branch.length && tree ? r.pick(branch).id : "none", label: r.chance(70) ? words(r, 2) : undefined }; break;
      case "session_info": e = { type: kind, ...base, name: words(r, 2) }; break;
      case "usage": e = { type: kind, ...base, kind: "cache_warm", provider: "demo", model: "m1", usage: usage(r) }; break;
      case "mystery": e = { type: "mystery_" + r.int(3), ...base, payload: words(r, 2), summary: "not a summary" }; break;
      case "compaction": {
        e = { type: kind, ...base, summary: "CS " + words(r), tokensBefore: 100 + r.int(9000) };
        if (tree) {
          const near = branch.slice(-8);
          e.firstKeptEntryId = near.length && r.chance(75) ? r.pick(r.chance(70) ? near : branch).id : r.chance(75) ? base.id : "nowhere";
          if (r.chance(45)) e.systemMessage = systemMessage(r, i);
        } else {
          e.firstKeptEntryIndex = r.weighted([[Math.max(0, parsed.length - 1 - r.int(6)), 8], [parsed.length, 1], [parsed.length + 1, 1], [0, 1]]);
        }
        break;
      }
      case "context_edit": {
        const seen = branch.filter((b) => b.type === "message" || b.type === "custom_message");
        const odd = branch.filter((b) => b.type === "compaction" || b.type === "branch_summary");
        const earlier = branch.filter((b) => b.type === "context_edit");
        const pool = odd.length && r.chance(12) ? odd : seen.length ? seen.slice(r.chance(60) ? -6 : 0) : branch;
        const targetId = earlier.length && r.chance(30) ? r.pick(earlier).targetId : r.chance(5) ? r.pick(parsed.slice(1)).id : r.pick(pool).id;
        e = { type: kind, ...base, targetId, replacement: wild ? wildReplacement(r) : replacement(r) };
        break;
      }
    }
    if (seed % 9 === 0 && i === 3) lines.push('{"type":"message","id":"broken","mess');
    if (seed % 11 === 0 && i === 4) lines.push("");
    parsed.push(e);
    byId.set(e.id, e);
    lines.push(wild && r.chance(5) ? respelled(r, e) : JSON.stringify(e));
    prev = base.id ?? null;
  }
  // The leaf is the last line of a file: a label puts it anywhere in the tree.
  if (wild && tree && r.chance(25)) {
    const parentId = r.pick(parsed.slice(1)).id;
    lines.push(JSON.stringify({ type: "label", id: r.hex(), parentId, timestamp: stamp(want + 1), targetId: "none", label: "here" }));
  }
  return lines;
}

// ------------------------------------------------------- hand-written corners
export function corners() {
  const head = JSON.stringify({ type: "session", version: 3, id: "corner", timestamp: stamp(0), cwd: "demo" });
  const J = (o) => JSON.stringify(o);
  let tick = 0;
  const at = () => stamp(++tick);
  const user = (id, parentId, content) => J({ type: "message", id, parentId, timestamp: at(), message: { role: "user", content, timestamp: T0 } });
  const sys = (id, parentId, content) => J({ type: "message", id, parentId, timestamp: at(), message: { role: "system", content, timestamp: T0 } });
  const bot = (id, parentId, content) => J({ type: "message", id, parentId, timestamp: at(), message: { role: "assistant", content, api: "demo-api", provider: "demo", model: "m1", stopReason: "stop", timestamp: T0 } });
  const res = (id, parentId, content) => J({ type: "message", id, parentId, timestamp: at(), message: { role: "toolResult", toolCallId: "c1", toolName: "peek", content, isError: false, timestamp: T0 } });
  const run = (id, parentId, more) => J({ type: "message", id, parentId, timestamp: at(), message: { role: "bashExecution", command: "ls", output: "a b", exitCode: 0, cancelled: false, truncated: false, timestamp: T0, ...more } });
  const cm = (id, parentId, content) => J({ type: "custom_message", id, parentId, timestamp: at(), customType: "hint", content, display: true });
  const bs = (id, parentId, summary) => J({ type: "branch_summary", id, parentId, timestamp: at(), fromId: "root", summary });
  const edit = (id, parentId, targetId, rep) => J({ type: "context_edit", id, parentId, timestamp: at(), targetId, replacement: rep });
  const comp = (id, parentId, firstKeptEntryId, more) => J({ type: "compaction", id, parentId, timestamp: at(), summary: "sum " + id, firstKeptEntryId, tokensBefore: 50, ...more });
  const S = { role: "system", content: "checkpoint", timestamp: T0 };
  return {
    "dangling-parent": [head, user("a", null, "one"), user("b", "lost", "two"), user("c", "b", "three")],
    "several-roots": [head, user("a", null, "one"), user("b", "a", "two"), user("c", null, "three"), user("d", "c", "four")],
    "empty-parent-id": [head, user("a", null, "one"), user("b", "", "two")],
    "duplicate-id": [head, user("a", null, "first a"), user("b", "a", "b"), user("a", null, "second a"), user("c", "b", "c")],
    "duplicate-id-leaf": [head, user("a", null, "a"), user("b", "a", "first b"), user("c", "b", "c"), user("b", "a", "second b")],
    "leaf-is-label": [head, user("a", null, "one"), user("b", "a", "two"), J({ type: "label", id: "l", parentId: "a", timestamp: at(), targetId: "b", label: "x" })],
    "leaf-without-id": [head, user("a", null, "one"), user("b", "a", "two"), user(undefined, "a", "no id")],
    "malformed-and-blank": [head, "", user("a", null, "one"), '{"type":"message","id":"x"', "   ", user("b", "a", "two"), "null", "not json", user("c", "b", "three")],
    "header-after-noise": ["", "{oops", head, user("a", null, "one")],
    "second-header": [head, user("a", null, "one"), head, user("b", "a", "two")],
    "carriage-returns": [head + "\r", user("a", null, "one") + "\r", user("b", "a", "two") + "\r"],
    "no-final-newline": [head, user("a", null, "one"), user("b", "a", "two")],
    "header-only": [head],
    "null-content": [head, sys("s", null, null), user("a", "s", null), bot("b", "a", null), res("c", "b", null), cm("d", "c", null), cm("e", "d", "")],
    "edit-string-per-role": [head, sys("s", null, "base"), user("a", "s", "u"), bot("b", "a", [text("x")]), res("c", "b", [text("r")]), cm("d", "c", "m"), run("x", "d"), bs("y", "x", "went away"), ...["s", "a", "b", "c", "d", "x", "y"].map((t, i, all) => edit("e" + i, i ? "e" + (i - 1) : "y", t, { content: "new " + all[i] }))],
    "edit-blocks-per-role": [head, sys("s", null, "base"), user("a", "s", "u"), bot("b", "a", [text("x")]), res("c", "b", [text("r")]), cm("d", "c", "m"), run("x", "d"), bs("y", "x", "went away"), ...["s", "a", "b", "c", "d", "x", "y"].map((t, i, all) => edit("e" + i, i ? "e" + (i - 1) : "y", t, { content: [text("new " + all[i]), image()] }))],
    "edit-null-per-role": [head, sys("s", null, "base"), user("a", "s", "u"), bot("b", "a", [text("x")]), res("c", "b", [text("r")]), cm("d", "c", "m"), run("x", "d"), bs("y", "x", "went away"), user("z", "y", "kept"), ...["s", "a", "b", "c", "d", "x", "y"].map((t, i) => edit("e" + i, i ? "e" + (i - 1) : "z", t, null))],
    "edit-last-wins": [head, user("a", null, "one"), edit("e1", "a", "a", null), edit("e2", "e1", "a", { content: "two" }), edit("e3", "e2", "a", { content: "" })],
    "edit-before-target": [head, edit("e1", null, "a", { content: "ahead" }), user("a", "e1", "one")],
    "edit-on-other-branch": [head, user("a", null, "one"), edit("e1", "a", "a", null), user("b", "a", "two")],
    "edit-of-unknown": [head, user("a", null, "one"), edit("e1", "a", "zzz", null), edit("e2", "e1", "e1", null)],
    "edit-target-summarised": [head, user("a", null, "one"), user("b", "a", "two"), comp("k", "b", "b"), edit("e", "k", "a", { content: "late" })],
    "edit-lost-to-compaction": [head, user("a", null, "one"), edit("e", "a", "b", { content: "changed" }), user("b", "e", "two"), comp("k", "b", "b"), user("c", "k", "three")],
    "edit-kept-with-target": [head, user("a", null, "one"), user("b", "a", "two"), edit("e", "b", "b", { content: "changed" }), comp("k", "e", "b"), user("c", "k", "three")],
    "edit-compaction-null": [head, user("a", null, "one"), comp("k", "a", "k", { systemMessage: S }), user("b", "k", "two"), edit("e", "b", "k", null)],
    "edit-compaction-content": [head, user("a", null, "one"), comp("k", "a", "k", { systemMessage: S }), user("b", "k", "two"), edit("e", "b", "k", { content: "nope" })],
    "compaction-retains-none": [head, sys("s", null, "base"), user("a", "s", "one"), comp("k", "a", "k"), user("b", "k", "two")],
    "compaction-keeps-range": [head, sys("s", null, "base"), user("a", "s", "one"), user("b", "a", "two"), sys("t", "b", "more"), user("c", "t", "three"), comp("k", "c", "b", { systemMessage: S }), sys("w", "k", "after"), user("d", "w", "four")],
    "compaction-first-kept-system": [head, sys("s", null, "base"), user("a", "s", "one"), comp("k", "a", "s"), user("b", "k", "two")],
    "compaction-first-kept-off-branch": [head, user("a", null, "one"), user("b", "a", "two"), user("c", "a", "three"), comp("k", "c", "b"), user("d", "k", "four")],
    "compaction-first-kept-later": [head, user("a", null, "one"), comp("k", "a", "b"), user("b", "k", "two")],
    "compaction-first-kept-missing": [head, user("a", null, "one"), comp("k", "a", undefined), user("b", "k", "two")],
    "compaction-twice": [head, user("a", null, "one"), user("b", "a", "two"), comp("k", "b", "b", { systemMessage: S }), user("c", "k", "three"), comp("m", "c", "b"), user("d", "m", "four")],
    "compaction-first-kept-compaction": [head, user("a", null, "one"), comp("k", "a", "a"), user("c", "k", "three"), comp("m", "c", "k"), user("d", "m", "four")],
    "compaction-on-other-branch": [head, user("a", null, "one"), user("b", "a", "two"), comp("k", "b", "b"), user("c", "b", "three")],
    "compaction-empty-summary": [head, user("a", null, "one"), comp("k", "a", "a", { summary: "" })],
    "branch-summary-empty": [head, user("a", null, "one"), bs("b", "a", ""), bs("c", "b", "real")],
    "bash-forms": [head, run("a", null), run("b", "a", { output: "" }), run("c", "b", { exitCode: 3 }), run("d", "c", { exitCode: null }), run("e", "d", { cancelled: true, exitCode: 9 }), run("f", "e", { truncated: true, fullOutputPath: "out/full.log", exitCode: 2 }), run("g", "f", { truncated: true }), run("h", "g", { excludeFromContext: true })],
    "hook-message-in-v3": [head, J({ type: "message", id: "a", parentId: null, timestamp: at(), message: { role: "hookMessage", customType: "n", content: "stays", display: true, timestamp: T0 } }), user("b", "a", "two")],
    "future-version": [head.replace('"version":3', '"version":9'), user("a", null, "one")],
    "v1-ids-replaced": [head.replace('"version":3,', ""), user("a", "nowhere", "one"), user("b", null, "two"), edit("e", "b", "a", null)],
    "v1-index-skips-noise": [head.replace('"version":3,', ""), "{oops", user(undefined, undefined, "one"), user(undefined, undefined, "two"), J({ type: "compaction", timestamp: at(), summary: "v1 sum", firstKeptEntryIndex: 2, tokensBefore: 5 }), user(undefined, undefined, "three")],
    "v1-index-of-header": [head.replace('"version":3,', ""), user(undefined, undefined, "one"), J({ type: "compaction", timestamp: at(), summary: "v1 sum", firstKeptEntryIndex: 0, tokensBefore: 5 }), user(undefined, undefined, "two")],
    "lone-surrogates": [head, user("a", null, "high \ud83d"), bot("b", "a", [text("\ude00 low")]), cm("c", "b", "mid \ud83d dle"), comp("k", "c", "a", { summary: "cut \ud83d" })],
  };
}
