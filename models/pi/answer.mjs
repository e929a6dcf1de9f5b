// What real Pi makes of the sessions in sessions.jsonl: its estimate of the next request, where it would cut, the messages it would send
// over Chat Completions (u, a, t, s by role) and the system prompt a compaction would carry. Only the answers are rewritten.
//
//     PI_ROOT=<node_modules>/@earendil-works node models/pi/answer.mjs      (Pi 1.6.0)
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = process.env.PI_ROOT;
if (!root) throw new Error("set PI_ROOT to the folder holding pi-coding-agent and pi-ai");
const pi = (path) => import(pathToFileURL(join(root, path)).href);
const { SessionManager } = await pi("pi-coding-agent/dist/core/session-manager.js");
const { convertToLlm } = await pi("pi-coding-agent/dist/core/messages.js");
const { estimateProjectedContextTokens, prepareCompaction } = await pi("pi-coding-agent/dist/core/compaction/compaction.js");
const { convertMessages } = await pi("pi-ai/dist/api/openai-completions.js");
const { getCurrentSystemMessage } = await pi("pi-ai/dist/utils/transcript.js");

const model = { id: "m", provider: "p", api: "openai-completions", input: ["text"], reasoning: false };
const fixture = fileURLToPath(new URL("sessions.jsonl", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "sessions-"));

function answer({ session, keep }, index) {
  const path = join(directory, `${index}.jsonl`);
  writeFileSync(path, session);
  const manager = SessionManager.open(path, directory);
  const projection = manager.buildSessionProjection();
  const branch = manager.getBranch();
  const plan = prepareCompaction(branch, { keepRecentTokens: keep, reserveTokens: 0 });
  const sent = convertMessages(model, { messages: convertToLlm(projection.messages) }, { supportsMidConvoSystemMessages: true }, {});
  const system = getCurrentSystemMessage(projection.messages);
  return {
    session,
    keep,
    estimate: estimateProjectedContextTokens(projection, branch).tokens,
    plan: plan
      ? [plan.firstKeptEntryId, plan.messagesToSummarize.length, plan.turnPrefixMessages.length, plan.previousSummary ?? null]
      : null,
    sent: sent.map((message) => message.role[0]).join(""),
    system: system ? JSON.stringify({ ...system, timestamp: 0 }) : null,
  };
}

const lines = readFileSync(fixture, "utf8").trim().split("\n").map((line) => JSON.parse(line));
writeFileSync(fixture, lines.map((line, index) => JSON.stringify(answer(line, index)) + "\n").join(""));
rmSync(directory, { recursive: true });
console.log(`${lines.length} sessions`);
