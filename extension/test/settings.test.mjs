// The options of a person: what of a file counts, and what is written into it.

import assert from "node:assert/strict";
import { lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { Folding } from "../dist/folding.js";
import { load } from "../dist/native.js";
import { readSettings, saveSettings, settingsPath } from "../dist/settings.js";
import { folder, open } from "./world.mjs";

/** Two processes of one person, as far as the file can tell. */
async function windows(count) {
  const foldings = [];
  const take = (extension) => foldings.push(new Folding(extension, load(), undefined));
  const world = await open(folder(), { after: Array.from({ length: count }, () => take) });
  const ctx = { sessionManager: world.sessionManager, model: { contextWindow: 100_000 }, hasUI: false, mode: "print" };
  for (const folding of foldings) await folding.open(ctx);
  return { world, foldings, ctx };
}

const saved = () => JSON.parse(readFileSync(settingsPath(), "utf8"));

test("what two windows change one after the other is kept both, and each then goes by both", async () => {
  const { world, foldings: [one, two], ctx } = await windows(2);
  await one.configure("thresholds.maxTarget", 0.7, ctx);
  const { options } = await two.configure("palette.map", "viridis", ctx);
  assert.deepEqual([options.thresholds.maxTarget, options.palette.map], [0.7, "viridis"]);
  assert.deepEqual(saved(), options);
  assert.equal((await two.status(ctx)).maxTarget, 70_000);
  const refused = await one.configure("thresholds.maxTarget", 7, ctx);
  assert.match(refused.said, /maxTarget is 7/);
  assert.equal(refused.options, undefined);
  assert.deepEqual(saved(), options);
  world.session.dispose();
});

test("a settings file that is a link stays one, also where it leads to nothing yet", () => {
  const path = folder();
  const real = join(path, "dotfiles.json");
  mkdirSync(dirname(settingsPath()), { recursive: true });
  symlinkSync("../../dotfiles.json", settingsPath());
  for (const text of ['{"preCommitNotice":true}', '{"preCommitNotice":false}']) {
    saveSettings(text);
    assert.ok(lstatSync(settingsPath()).isSymbolicLink());
    assert.equal(readFileSync(real, "utf8"), text);
  }
});

test("an empty file sets nothing, a mark before the text is none of it, and what is wrong says where and that it is left alone", async () => {
  folder();
  mkdirSync(dirname(settingsPath()), { recursive: true });
  const read = (text) => {
    writeFileSync(settingsPath(), text);
    return readSettings(load(), undefined);
  };
  assert.deepEqual(await read(" \n"), { text: "{}", refused: [] });
  assert.deepEqual(await read('\ufeff{"preCommitNotice":true}'), { text: '{"preCommitNotice":true}', refused: [] });
  const { text, refused } = await read('{\n  "preCommitNotice": 7\n}');
  assert.equal(text, "{}");
  assert.match(refused.join(), /settings\.json, line 2: preCommitNotice .*\. The file is left as it is$/);
});

test("options in code that are none are told as such, whatever they are; none at all means the file", async () => {
  folder();
  const circular = {};
  circular.palette = circular;
  for (const wrong of [circular, { providerInputBudget: 10n }, () => ({}), { toolFoldThreshold: 7 }, [], "text"]) {
    const { text, refused } = await readSettings(load(), wrong);
    assert.equal(text, "{}");
    assert.match(refused.join(), /^the options in code/);
    assert.doesNotMatch(refused.join(), /The file/);
  }
  for (const none of [null, undefined]) {
    const folding = new Folding({}, load(), none);
    assert.equal((await folding.options()).given, false);
  }
});
