// Conformance fixtures: what the real Pi coding agent makes of a session journal.
//
// This script invents small session files (seeded, so every run writes the same
// bytes), lets an installed Pi open each one, and writes down which messages Pi
// would carry into the model's context, from which line of the file each came,
// and the text Pi hands to the model for its own message roles.  Our projection
// is then tested against projection.jsonl without needing Pi or Node.
//
// Rerun (Pi 1.6.0 and a recent Node; PI_ROOT is the folder that holds
// pi-coding-agent, i.e. the package scope folder inside node_modules):
//
//     PI_ROOT=<node_modules>/@earendil-works node golden/pi/generate.mjs
//
// Each output line is {"name", "session", "expected"}:
//   session   the file's lines; joined with "\n" plus a final "\n" they are the file
//             (when "no_final_newline" is true, without that last "\n").
//   expected  one object per projected message, in Pi's order:
//     line      0-based index into session of the entry the message comes from
//     role      the message's role
//     content   message content with object keys sorted; for compactionSummary and
//               branchSummary the summary; for bashExecution the command's fields
//     sections, toolsAdded, toolsRemoved   only on system messages that have them
//     llm       (roles other than system/user/assistant/toolResult) the text
//               sent to the model, text blocks joined with nothing between; null when
//               Pi sends nothing.  llm_images counts image blocks, if any.
//   When content (or llm) holds an unpaired surrogate, it is given instead as
//   content_json (llm_json): a string holding its JSON text, so that strict JSON
//   readers can still read the fixture file.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { corners, randomSession } from "./journals.mjs";

const root = process.env.PI_ROOT;
if (!root) throw new Error("set PI_ROOT to the folder holding pi-coding-agent");
const { SessionManager, convertToLlm } = await import(
  pathToFileURL(join(root, "pi-coding-agent", "dist", "index.js")).href
);

// --------------------------------------------------------------- asking Pi
const sortKeys = (v) =>
  Array.isArray(v) ? v.map(sortKeys)
    : v && typeof v === "object" ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, sortKeys(v[k])]))
      : v;
const put = (out, key, value) => {
  const json = JSON.stringify(sortKeys(value));
  if (/(^|[^\\])(\\\\)*\\ud[89a-f]/i.test(json)) out[key + "_json"] = json;
  else out[key] = sortKeys(value);
};
const truthy = (line) => {
  try { return JSON.parse(line) || null; } catch { return null; }
};

function describe(line, m) {
  const out = { line, role: m.role };
  if (m.role === "compactionSummary" || m.role === "branchSummary") put(out, "content", m.summary);
  else if (m.role === "bashExecution") {
    const { role, timestamp, ...rest } = m;
    put(out, "content", rest);
  } else put(out, "content", m.content);
  if (m.role === "system") for (const k of ["sections", "toolsAdded", "toolsRemoved"]) if (m[k] !== undefined) put(out, k, m[k]);
  if (!["system", "user", "assistant", "toolResult"].includes(m.role)) {
    const [sent] = convertToLlm([m]);
    put(out, "llm", sent ? sent.content.filter((b) => b.type === "text").map((b) => b.text).join("") : null);
    const images = sent ? sent.content.filter((b) => b.type === "image").length : 0;
    if (images) out.llm_images = images;
  }
  return out;
}

function project(name, lines, finalNewline) {
  const dir = mkdtempSync(join(tmpdir(), "pi-golden-"));
  try {
    const file = join(dir, "s.jsonl");
    writeFileSync(file, lines.join("\n") + (finalNewline ? "\n" : ""));
    const sm = SessionManager.open(file, dir, dir);
    const origin = new Map();
    const where = lines.flatMap((l, i) => { const e = truthy(l); return e && e.type !== "session" ? [i] : []; });
    const entries = sm.getEntries();
    if (entries.length !== where.length) throw new Error(name + ": Pi read " + entries.length + " entries, expected " + where.length);
    entries.forEach((e, i) => origin.set(e, where[i]));
    const p = sm.buildSessionProjection();
    const expected = p.entries.flatMap((e) => e.messages.map((m) => describe(origin.get(e.sourceEntry), m)));
    if (expected.some((e) => e.line === undefined)) throw new Error(name + ": source line unknown");
    return { name, session: lines, ...(finalNewline ? {} : { no_final_newline: true }), expected };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const out = [];
for (const [name, lines] of Object.entries(corners())) out.push(project(name, lines, name !== "no-final-newline"));
for (let seed = 1; seed <= 120; seed++) {
  const version = seed % 10 === 4 ? 1 : seed % 10 === 7 ? 2 : 3;
  out.push(project(`random-${String(seed).padStart(3, "0")}-v${version}`, randomSession(seed, version), true));
}
const target = join(dirname(fileURLToPath(import.meta.url)), "projection.jsonl");
writeFileSync(target, out.map((o) => JSON.stringify(o) + "\n").join(""));
console.log(out.length + " sessions, " + out.reduce((n, o) => n + o.expected.length, 0) + " messages, " + readFileSync(target).length + " bytes");
