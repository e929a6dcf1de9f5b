// A real Pi in a process of its own: its command line, its models.json, and a provider on loopback.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { provider, rewrites } from "./wires.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const CLI = at("../node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");
const TOOL = at("tool.js");

/** A window that is soon full. */
const WINDOW = 20_000;

/** The package as it is installed: without the Pi that the tests brought beside it, which would be loaded a second time. */
const OURS = mkdtempSync(join(tmpdir(), "pi-fold-package-"));
process.on("exit", () => rmSync(OURS, { recursive: true, force: true }));
for (const name of ["package.json", "dist"]) cpSync(at(`../${name}`), join(OURS, name), { recursive: true });

/** A folder with all that Pi reads and writes; it goes when the test does. Another home may share its session `folder`. */
export function home(context, mock, folder) {
  const path = mkdtempSync(join(tmpdir(), "pi-fold-cli-"));
  // What a failed test leaves running would keep the others waiting for ever.
  const children = new Set();
  context.after(() => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(path, { recursive: true, force: true });
  });
  for (const name of ["cwd", "agent", "sessions"]) mkdirSync(join(path, name));
  const { wire } = mock;
  const cost = { input: 1, output: 1, cacheRead: 1, cacheWrite: 1 };
  const model = { id: wire.model, name: wire.model, reasoning: true, input: ["text"], contextWindow: mock.window, maxTokens: 1_024, cost };
  const providers = { mock: { name: "Mock", baseUrl: mock.url, api: wire.api, apiKey: "none", models: [model] } };
  writeFileSync(join(path, "agent/models.json"), JSON.stringify({ providers }));
  const settings = { retry: { baseDelayMs: 20 }, compaction: { reserveTokens: 6_000, keepRecentTokens: 4_000 } };
  writeFileSync(join(path, "agent/settings.json"), JSON.stringify(settings));
  return { path, mock, folder: folder ?? join(path, "sessions"), children };
}

/** Starts Pi. Extensions load `before` and `after` ours; `shell` is said before Pi is started. */
export function start({ path, mock, folder, children }, args, { before = [], after = [], env = {}, shell } = {}) {
  const given = ["--provider", "mock", "--model", mock.wire.model, "--thinking", "low", "--session-dir", folder, "--no-builtin-tools"];
  const loaded = [TOOL, ...before, OURS, ...after].flatMap((extension) => ["-e", extension]);
  const [command, words] = shell ? ["bash", ["-c", `${shell}; exec "$@"`, "bash", process.execPath]] : [process.execPath, []];
  const child = spawn(command, [...words, CLI, ...given, ...loaded, ...args], {
    cwd: join(path, "cwd"),
    env: {
      PATH: process.env.PATH,
      HOME: path,
      PI_CODING_AGENT_DIR: join(path, "agent"),
      XDG_CONFIG_HOME: join(path, "config"),
      PI_OFFLINE: "1",
      ...env,
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  children.add(child);
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8");
    child[name].on("data", (data) => (said[name] += data));
  }
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status, signal) => resolve({ status, signal, ...said }));
  });
  return { child, said, ended };
}

/** Runs Pi to its end, with nothing on its standard input. */
export function run(home, args, options) {
  const { child, ended } = start(home, args, options);
  child.stdin.end();
  return ended;
}

/** Pi as a server of a client: commands in, answers and events out, one JSON object a line. */
export function client(home, args = [], options = {}) {
  const { child, ended } = start(home, ["--mode", "rpc", ...args], options);
  const seen = [];
  const waiting = new Set();
  let [rest, number, over] = ["", 0, false];
  child.stdout.on("data", (data) => {
    rest += data;
    const end = rest.lastIndexOf("\n") + 1;
    seen.push(...records(rest.slice(0, end)));
    rest = rest.slice(end);
    for (const look of waiting) look();
  });
  ended.finally(() => {
    over = true;
    for (const look of waiting) look();
  });
  /** The `count`-th record that is looked for, when it is there. */
  const until = (found, count = 1) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const hit = seen.filter(found)[count - 1];
        if (!hit && !over) return;
        waiting.delete(look);
        if (hit) resolve(hit);
        else reject(new Error("Pi has ended before what was waited for"));
      };
      waiting.add(look);
      look();
    });
  const settled = (count) => until(({ type }) => type === "agent_settled", count);
  return {
    seen,
    until,
    settled,
    command(fields) {
      const id = `q${(number += 1)}`;
      child.stdin.write(`${JSON.stringify({ id, ...fields })}\n`);
      return until((record) => record.type === "response" && record.id === id);
    },
    /** Prompts, and waits until Pi has nothing more to do. */
    async prompt(message) {
      const before = seen.filter(({ type }) => type === "agent_settled").length;
      await this.command({ type: "prompt", message });
      return settled(before + 1);
    },
    end() {
      child.stdin.end();
      return ended;
    },
  };
}

/** JSON lines; a line that is none is an error. The last one may be on its way. */
export function records(text) {
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

/** The session files of a home, in the order of their names: they begin with the time. */
export function sessions({ folder }) {
  const found = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
  return found.sort().map((name) => join(folder, name));
}

/** The entries of a session file. */
export function entries(file) {
  return records(readFileSync(file, "utf8"));
}

export const commits = (list) => list.filter((entry) => entry.type === "custom" && entry.customType === "pi-fold.commit").map((entry) => entry.data);
export const edits = (list) => list.filter((entry) => entry.type === "context_edit");
export const compactions = (list) => list.filter((entry) => entry.type === "compaction");

/** So many steps that each call the long tool; every fifth calls it twice at once. */
export function steps(count, from = 0, size) {
  const call = (text) => ({ name: "big", args: { text, ...(size ? { size } : {}) } });
  const step = (at) => ({ text: `step ${at}`, calls: at % 5 === 4 ? [call(`x${at}`), call(`y${at}`)] : [call(`x${at}`)] });
  return Array.from({ length: count }, (_, at) => step(from + at));
}

/** A provider that goes through a list of steps, and a home for Pi. */
export async function world(context, wire, list, folder) {
  const mock = await provider(wire, list, WINDOW);
  context.after(() => mock.close());
  return { mock, place: home(context, mock, folder) };
}

/** Every request was valid and fitted, nothing was compacted, and only commits changed what the provider had read before. */
export function sound({ mock, place }, file = sessions(place)[0]) {
  assert.deepEqual(mock.refused, []);
  assert.equal(mock.overflows, 0, "no request was larger than the window");
  const list = entries(file);
  assert.equal(compactions(list).length, 0);
  assert.equal(rewrites(mock, mock.requests), commits(list).length, "a rewrite for each commit and none else");
  return list;
}
