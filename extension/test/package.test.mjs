// The package as a person installs it: a tarball, a Pi that was never started before, and the commands of README.md.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(join(here, "README.md"), "utf8");
const { version } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));

/** The commands of a section, without what is said behind them. */
function commands(section) {
  const text = readme.split(/^## /m).find((part) => part.startsWith(section));
  return text.split("\n").filter((line) => line.startsWith("    pi ")).map((line) => line.replace(/ +#.*/, "").trim());
}

let home;
let work;

/** A line of a shell, where `pi` is Pi, with nothing of whoever runs the test. */
function shell(line, input = "") {
  const environment = { ...process.env, HOME: home, PI_CODING_AGENT_DIR: join(home, ".pi/agent"), PI_OFFLINE: "1" };
  environment.XDG_CONFIG_HOME = join(home, ".config");
  environment.PATH = [join(home, "bin"), dirname(process.execPath), process.env.PATH].join(delimiter);
  return spawnSync("sh", ["-c", line], { cwd: work, env: environment, input, encoding: "utf8" });
}

/** The commands that Pi offers in a session. */
function offered() {
  const { stdout, stderr } = shell("pi --mode rpc --no-session", '{"id":"1","type":"get_commands"}\n');
  const answer = stdout.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line)).find((line) => line.id === "1");
  assert.ok(answer?.success, stdout + stderr);
  return answer.data.commands.map((one) => one.name);
}

before(() => {
  home = mkdtempSync(join(tmpdir(), "pi-fold-home-"));
  work = join(home, "work");
  mkdirSync(join(work, "target/npm"), { recursive: true });
  mkdirSync(join(home, "bin"));
  const cli = join(here, "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");
  writeFileSync(join(home, "bin/pi"), `#!/bin/sh\nexec "${process.execPath}" "${cli}" "$@"\n`);
  chmodSync(join(home, "bin/pi"), 0o755);
  execFileSync("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", join(work, "target/npm")], { cwd: here });
});

test("the tarball holds what runs and what is read, and no source, test or dependency", () => {
  const listed = execFileSync("tar", ["-tzf", join(work, `target/npm/pi-fold-${version}.tgz`)], { encoding: "utf8" }).trim().split("\n");
  const platform = `${process.platform}-${process.arch}`;
  const binaries = [`dist/pi-fold.${platform}.node`, `dist/pi-fold.${platform}`];
  for (const name of ["package.json", "README.md", "LICENSE", "dist/index.js", "dist/command.js", ...binaries]) {
    assert.ok(listed.includes(`package/${name}`), name);
  }
  assert.deepEqual(listed.filter((name) => /\/(node_modules|src|test|native|command|store)\//.test(name)), []);
});

test("the commands of README.md install it, Pi shows its commands, its program runs, and it is gone when it was removed", () => {
  const install = commands("Install");
  const remove = commands("How to remove it");
  assert.deepEqual([install.length, remove.length], [1, 1]);
  assert.ok(!offered().includes("fold-status"));

  const installed = shell(install[0]);
  assert.equal(installed.status, 0, installed.stdout + installed.stderr);
  assert.match(shell("pi list").stdout, /pi-fold/);
  assert.ok(offered().includes("fold") && offered().includes("fold-status"));
  const program = readme.match(/^ +(~\/\S*\/pi-fold) /m)[1];
  assert.equal(shell(`${program} --version`).stdout, `pi-fold ${version}\n`);

  const removed = shell(remove[0]);
  assert.equal(removed.status, 0, removed.stdout + removed.stderr);
  assert.doesNotMatch(shell("pi list").stdout, /pi-fold/);
  assert.ok(!offered().includes("fold-status"));
  assert.ok(!existsSync(join(home, ".pi/agent/npm/node_modules/pi-fold")));
});

test("a folder installs in place, and is not touched when it is removed", () => {
  execFileSync("tar", ["-xzf", join(work, `target/npm/pi-fold-${version}.tgz`), "-C", work]);
  const before = readdirSync(join(work, "package"));
  assert.equal(shell("pi install ./package").status, 0);
  assert.ok(offered().includes("fold-status"));
  assert.equal(shell("pi remove ./package").status, 0);
  assert.ok(!offered().includes("fold-status"));
  assert.deepEqual(readdirSync(join(work, "package")), before);
});
