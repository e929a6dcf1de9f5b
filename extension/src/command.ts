#!/usr/bin/env node
// The command `pi-fold`: finds the program of this platform and becomes it, as far as Node can.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The program of this platform: in the package npm chose for it, or one that was built here. */
function program(): string | undefined {
  const platform = `${process.platform}-${process.arch}`;
  const suffix = process.platform === "win32" ? ".exe" : "";
  try {
    const found = createRequire(import.meta.url).resolve(`pi-fold-${platform}/package.json`);
    const brought = join(dirname(found), `pi-fold${suffix}`);
    if (existsSync(brought)) return brought;
  } catch {
    // No such package: the one beside this file, then.
  }
  const beside = join(dirname(fileURLToPath(import.meta.url)), `pi-fold.${platform}${suffix}`);
  return existsSync(beside) ? beside : undefined;
}

const found = program();
if (found === undefined) {
  process.stderr.write(`error: pi-fold has no program for ${process.platform}-${process.arch}\n`);
  process.exit(1);
}
// A terminal sends Ctrl-C to both; a signal that was sent to this process alone goes on to the program. Its end is this one's.
// Listened for before the program starts: one that came in between would end this process and leave the program behind.
const passed = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
for (const signal of passed) process.on(signal, () => child.kill(signal));
const child = spawn(found, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  process.stderr.write(`error: ${found} could not be started: ${error.message}\n`);
  process.exit(1);
});
child.on("exit", (status, signal) => {
  for (const name of passed) process.removeAllListeners(name);
  // Who started this sees the signal itself, where there are signals; else the status a shell would give.
  if (signal !== null) process.kill(process.pid, signal);
  process.exitCode = status ?? 128 + (signal === null ? 1 : constants.signals[signal]);
});
