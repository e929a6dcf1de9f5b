// The command of the package, on a session that a real Pi wrote.

import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { answers, folder, open, steps } from "./world.mjs";

const command = fileURLToPath(new URL("../dist/command.js", import.meta.url));
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const run = (...words) => spawnSync(process.execPath, [command, ...words], { encoding: "utf8", maxBuffer: 1 << 28 });

let path;
let file;
let fold;

before(async () => {
  path = folder();
  const world = await open(path);
  answers(world, steps(120));
  await world.session.prompt("go");
  file = world.sessionManager.getSessionFile();
  fold = run("export", file).stdout.match(/f_[0-9a-f]{12}/)[0];
});

test("it says its version, which is that of the package", () => {
  const { status, stdout } = run("--version");
  assert.deepEqual([status, stdout], [0, `pi-fold ${version}\n`]);
});

test("what Pi wrote is verified whole, and the store beside it is found", () => {
  const { status, stdout } = run("verify", file);
  assert.equal(status, 0, stdout);
  assert.match(stdout, /^[1-9]\d* whole$/m);
  assert.match(stdout, /second copies: .*pi-fold\.sqlite$/m);
});

test("an export through a pipe is the exact lines of the file, and a pipe that is closed early is no panic", () => {
  const exported = execFileSync("sh", ["-c", '"$0" "$1" export "$2" "$3" | cat', process.execPath, command, file, fold], { encoding: "utf8" });
  const lines = new Set(readFileSync(file, "utf8").split("\n"));
  const given = exported.trimEnd().split("\n");
  assert.ok(given.length > 0 && given.every((line) => line.startsWith("{") && lines.has(line)), exported.slice(0, 200));
  const script = '{ "$0" "$1" export "$2" "$3"; echo "status $?" >&2; } | head -c 1';
  const closed = spawnSync("sh", ["-c", script, process.execPath, command, file, fold], { encoding: "utf8" });
  assert.deepEqual([closed.stdout, closed.stderr], ["{", "status 0\n"]);
  // What is said of an error may find nobody, too.
  const nobody = '{ sleep 0.1; "$0" "$1" export "$2" f_nowhere 2>&1; echo $? >"$3"; } | :';
  const unheard = spawnSync("sh", ["-c", nobody, process.execPath, command, file, join(path, "status")]);
  assert.deepEqual([unheard.status, readFileSync(join(path, "status"), "utf8")], [0, "1\n"]);
});

test("exit statuses: 42 where the store does not stand in for what is damaged, 1 for what cannot be read, 0 where the store stands in", () => {
  const hidden = JSON.parse(run("export", file, fold).stdout.split("\n")[0]).id;
  const damaged = readFileSync(file, "utf8").replace(new RegExp(`^(.*"id":"${hidden}".*)RESULT`, "m"), "$1RESULD");
  writeFileSync(join(path, "damaged.jsonl"), damaged);
  const alone = run("verify", join(path, "damaged.jsonl"));
  assert.equal(alone.status, 42, alone.stdout);
  const beside = join(file, "..", "damaged.jsonl");
  writeFileSync(beside, damaged);
  const kept = run("verify", beside);
  assert.equal(kept.status, 0, kept.stdout);
  assert.match(kept.stdout, /in the store only/);
  assert.equal(run("verify", join(path, "nowhere.jsonl")).status, 1);
  assert.equal(run("export", file, "f_nowhere").status, 1);
});

test("a replay of Pi's folder of sessions tells what folding would have cost", () => {
  const { status, stdout } = run("replay", join(path, "sessions"), "--budget", "60000");
  assert.equal(status, 0, stdout);
  assert.match(stdout, /Folding would have cost \$/);
});

test("Ctrl-C ends it at once, and whoever started it sees that", { skip: process.platform !== "linux" }, async () => {
  const pipe = join(path, "pipe");
  execFileSync("mkfifo", [pipe]);
  // Nobody ever writes into the pipe: without the signal it would wait for ever.
  const child = spawn(process.execPath, [command, "verify", pipe], { stdio: "ignore" });
  const programs = () => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
  while (programs() === "") await new Promise((done) => setTimeout(done, 10));
  const program = programs();
  const ended = new Promise((done) => child.on("exit", (status, signal) => done([status, signal])));
  child.kill("SIGINT");
  assert.deepEqual(await ended, [null, "SIGINT"]);
  // Who has ended and waits to be asked how has ended too.
  const runs = () => {
    try {
      return !/\) Z /.test(readFileSync(`/proc/${program}/stat`, "utf8"));
    } catch {
      return false;
    }
  };
  for (let wait = 0; wait < 100 && runs(); wait += 1) await new Promise((done) => setTimeout(done, 50));
  assert.ok(!runs());
});
