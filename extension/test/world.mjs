// A real Pi without a screen: its own session, its own loop, a provider in this process.

import * as ai from "@earendil-works/pi-ai";
import * as pi from "@earendil-works/pi-coding-agent";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { registerPiFold } from "../dist/index.js";
import big from "./tool.js";

export { ai, pi };

const folders = [];
process.on("exit", () => folders.forEach((path) => rmSync(path, { recursive: true, force: true })));

/** A folder of a test's own, which goes with the process; the settings of whoever runs it are not read. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "pi-fold-test-"));
  folders.push(path);
  process.env.XDG_CONFIG_HOME = join(path, "config");
  for (const name of ["cwd", "agent", "sessions"]) mkdirSync(join(path, name));
  return path;
}

/**
 * A session on a folder. `before` and `after` are extensions that load before and after ours, `options` those of the fold; without `folds` ours is
 * not there at all. `ui` is the screen, where there is one.
 */
export async function open(path, { manager, window = 100_000, before = [], after = [], options = {}, folds = true, compaction = {}, ui } = {}) {
  const faux = ai.fauxProvider({ provider: "faux", api: "faux-api", models: [{ id: "faux-1", contextWindow: window, maxTokens: 4_096 }] });
  const modelRuntime = await pi.ModelRuntime.create({ authPath: join(path, "agent/auth.json"), modelsPath: join(path, "agent/models.json") });
  modelRuntime.registerNativeProvider(faux.provider);
  const settingsManager = pi.SettingsManager.inMemory({
    compaction: { enabled: true, reserveTokens: 16_384, keepRecentTokens: 20_000, ...compaction },
    retry: { enabled: false },
  });
  const ours = folds ? [(extension) => registerPiFold(extension, options)] : [];
  const factories = [big, ...before, ...ours, ...after].map((factory, index) => ({ name: `e${index}`, factory }));
  const resourceLoader = new pi.DefaultResourceLoader({
    cwd: join(path, "cwd"),
    agentDir: join(path, "agent"),
    settingsManager,
    extensionFactories: factories,
    noSkills: true,
    noPromptTemplates: true,
    noThemes: true,
    noContextFiles: true,
  });
  await resourceLoader.reload();
  const sessionManager = manager ?? pi.SessionManager.create(join(path, "cwd"), join(path, "sessions"));
  const { session } = await pi.createAgentSession({
    cwd: join(path, "cwd"),
    agentDir: join(path, "agent"),
    model: modelRuntime.getModel("faux", "faux-1"),
    thinkingLevel: "off",
    modelRuntime,
    resourceLoader,
    sessionManager,
    settingsManager,
    noTools: "builtin",
  });
  const errors = [];
  const events = [];
  session.subscribe((event) => events.push(event));
  await session.bindExtensions({ ...(ui ? { uiContext: ui, mode: "tui" } : {}), onError: (error) => errors.push(`${error.event}: ${error.error}`) });
  return { faux, session, sessionManager, errors, events, requests: [] };
}

/** Answers that the provider will give: each may look at the request it answers. */
export function answers(world, list) {
  const step = (answer) => (context, ...rest) => {
    world.requests.push(structuredClone(context.messages));
    return typeof answer === "function" ? answer(context, ...rest) : answer;
  };
  world.faux.setResponses(list.map(step));
}

/** So many steps that each call the long tool once, and a last word. */
export function steps(count, from = 0) {
  const call = (number) => ai.fauxAssistantMessage([ai.fauxText(`step ${number}`), ai.fauxToolCall("big", { text: `x${number}` }, { id: `c${number}` })], { stopReason: "toolUse" });
  return [...Array.from({ length: count }, (_, index) => call(from + index)), ai.fauxAssistantMessage("done")];
}

/** How many requests do not begin with the one before them. */
export function rewrites(requests) {
  const texts = requests.map((messages) => JSON.stringify(messages).slice(0, -1));
  return texts.filter((text, index) => index > 0 && !text.startsWith(texts[index - 1])).length;
}

/** Calls without a result and results without a call, in the order of the messages. */
export function unpaired(messages) {
  const open = new Set();
  const wrong = [];
  for (const message of messages) {
    if (message.role === "assistant") for (const block of message.content) if (block.type === "toolCall") open.add(block.id);
    if (message.role === "toolResult" && !open.delete(message.toolCallId)) wrong.push(`result ${message.toolCallId}`);
  }
  return [...wrong, ...[...open].map((id) => `call ${id}`)];
}

/** The records of commits on a branch. */
export function records(sessionManager) {
  return sessionManager.getBranch().filter((entry) => entry.type === "custom" && entry.customType === "pi-fold.commit").map((entry) => entry.data);
}
