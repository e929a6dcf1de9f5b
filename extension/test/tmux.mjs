// Pi's interactive screen, driven by keys and read back as text.

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const NODE = process.execPath;
const CLI = join(here, "../node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");

/** Whether there is a tmux; a screen cannot be looked at without. */
export function hasTmux() {
  try {
    execFileSync("tmux", ["-V"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** What Pi has to know of the provider of the sessions that tests make: nothing is ever sent to it. */
export function modelsFile(agent, { window = 100_000, url = "http://127.0.0.1:9/v1" } = {}) {
  const model = { id: "faux-1", reasoning: false, input: ["text"], contextWindow: window, maxTokens: 4_096, cost: { input: 1, output: 1, cacheRead: 1, cacheWrite: 1 } };
  const providers = { faux: { baseUrl: url, api: "openai-completions", apiKey: "none", models: [model] } };
  mkdirSync(agent, { recursive: true });
  writeFileSync(join(agent, "models.json"), JSON.stringify({ providers }));
}

/** Pi on a screen of its own. */
export function screen(path, { columns = 80, rows = 40, colours = "truecolor", session, extensions = [] } = {}) {
  const socket = `pi-fold-${randomBytes(6).toString("hex")}`;
  const tmux = (...words) => execFileSync("tmux", ["-L", socket, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const quote = (word) => `'${String(word).replaceAll("'", "'\\''")}'`;
  const environment = {
    HOME: path, PI_CODING_AGENT_DIR: join(path, "agent"), XDG_CONFIG_HOME: join(path, "config"), PI_OFFLINE: "1",
    PI_TRUE_COLOR: colours === "truecolor" ? "1" : "0", COLORTERM: colours === "truecolor" ? "truecolor" : "",
  };
  const words = [NODE, CLI, "-e", join(here, ".."), ...extensions.flatMap((file) => ["-e", file]), "--provider", "faux", "--model", "faux-1", "--no-skills"];
  if (session) words.push("--session", session);
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${quote(value)}`);
  tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "-c", join(path, "cwd"), ["env", ...variables, ...words.map(quote)].join(" "));
  const text = () => tmux("capture-pane", "-p");
  return {
    text,
    /** The same with its colours. */
    coloured: () => tmux("capture-pane", "-p", "-e"),
    keys: (...keys) => tmux("send-keys", ...keys),
    type: (words) => tmux("send-keys", "-l", words),
    /** Waits until the screen shows something. */
    async shows(what, seconds = 30) {
      const end = Date.now() + 1_000 * seconds;
      for (;;) {
        const now = text();
        if (typeof what === "function" ? what(now) : what.test(now)) return now;
        if (Date.now() > end) throw new Error(`the screen does not show ${what} after ${seconds} s:\n${now}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    close() {
      try {
        tmux("kill-server");
      } catch {
        // It was closed by its last session.
      }
    },
  };
}
