// Pi's interactive screen under tmux: the bar, the map, the settings, and what the commands say.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { row } from "../dist/bar.js";
import { load } from "../dist/native.js";
import { hasTmux, modelsFile, screen } from "./tmux.mjs";
import { ai, answers, folder, open, pi, records, steps } from "./world.mjs";

const bare = { shades: Array(6).fill(""), deeper: Array(6).fill(""), muted: (text) => text, error: (text) => text };
const plain = (text) => text.replaceAll(/\x1b\[[0-9;]*m/g, "");
const lines = (text) => text.split("\n").map((line) => line.trimEnd());
const barOf = (text) => lines(text).findLast((line) => /[█▌░]{3}.*(commit at|mapping)/.test(line));

/** A session file that folds stand in, made in the folder that the screen is opened on. */
async function folded(count = 90) {
  const path = folder();
  const world = await open(path);
  answers(world, steps(count));
  await world.session.prompt("go");
  assert.deepEqual(world.errors, []);
  world.session.dispose();
  modelsFile(join(path, "agent"));
  return { path, file: world.session.sessionFile };
}

async function gauge(file) {
  const branch = pi.SessionManager.open(file).getBranch();
  const fold = await load().Fold.open(Buffer.from(branch.map((entry) => `${JSON.stringify(entry)}\n`).join("")), "{}", 100_000);
  return JSON.parse(await fold.gauge());
}

const onBranch = (file, type) => pi.SessionManager.open(file).getBranch().filter((entry) => entry.type === type);
const decisions = (file) => onBranch(file, "custom").filter((entry) => entry.customType === "pi-fold.decision").map((entry) => entry.data);

describe("on a screen", { skip: hasTmux() ? false : "there is no tmux here", concurrency: 2 }, () => {
  let session;
  const screens = [];
  const show = (path, options) => {
    const opened = screen(path, options);
    screens.push(opened);
    return opened;
  };
  before(async () => {
    session = await folded();
  });
  after(() => screens.forEach((opened) => opened.close()));

  test("a reopened session shows its folds above the footer before any message, at 60, 80 and 200 columns", async () => {
    const expected = await gauge(session.file);
    for (const columns of [60, 80, 200]) {
      const opened = show(session.path, { session: session.file, columns });
      const text = await opened.shows((text) => /commit at/.test(text));
      const drawn = plain(row(expected, bare, columns)).trimEnd();
      assert.equal(barOf(text), drawn);
      const all = lines(text).filter(Boolean);
      const at = all.indexOf(drawn);
      assert.match(all[at + 1], /cwd/, "directly above the footer");
      assert.ok(lines(text).every((line) => line.length <= columns));
      opened.close();
    }
  });

  test("colours are those of the palette where the screen has them, and the theme's own where it has not", async () => {
    const [shade] = JSON.parse(await load().shadesOf("{}", true));
    for (const colours of ["truecolor", "256"]) {
      const opened = show(session.path, { session: session.file, columns: 120, colours });
      await opened.shows(/commit at/);
      const bar = opened.coloured().split("\n").findLast((line) => line.includes("commit at"));
      assert.equal(bar.includes(`38;2;${shade[0].join(";")}`), colours === "truecolor");
      assert.equal(/38;2;/.test(bar), colours === "truecolor");
      opened.close();
    }
  });

  test("a fresh session is not measured yet and has no folds", async () => {
    const path = folder();
    modelsFile(join(path, "agent"));
    const opened = show(path, { columns: 100 });
    assert.match(barOf(await opened.shows(/commit at/)), /^[░┊]{40} not measured yet · commit at 80% · 0 Folds$/);
    opened.close();
  });

  test("the map shows every fold and every mark, opens folds, and gives originals to read", async () => {
    const opened = show(session.path, { session: session.file, columns: 100 });
    await opened.shows(/commit at/);
    opened.type("/fold-editor");
    opened.keys("Enter");
    const map = await opened.shows(/▸ █ consolidated f_/);
    assert.match(map, /█ words · user: go/);
    assert.match(map, /█ marked \d+ · assistant: big\(/);
    opened.keys("Down", "Down");
    await opened.shows(/→▸ █ consolidated/);
    opened.keys("Right");
    await opened.shows(/→▾ █ consolidated[^]*?\n {3}▸ █ span f_/);
    opened.keys("s");
    assert.match(await opened.shows(/What the model sees of f_/), /⟦pi-fold f_/);
    opened.keys("Escape");
    await opened.shows(/→▾ █ consolidated/);
    opened.keys("Enter");
    const read = await opened.shows(/lines 1 to/);
    assert.match(read, /⟦pi-fold peek|⟦fold|⟦entry/);
    opened.keys("Escape");
    await opened.shows(/→▾ █ consolidated/);
    opened.keys("Escape");
    await opened.shows((text) => !/esc closes/.test(text) && /commit at/.test(text));
    opened.close();
  });

  test("from the map a person pins, unmarks, cuts anew, briefs, expands and refolds; each is in the journal", async () => {
    const { path, file } = await folded();
    const opened = show(path, { session: file, columns: 110, rows: 50 });
    await opened.shows(/commit at/);
    opened.type("/fold-editor");
    opened.keys("Enter");
    await opened.shows(/▸ █ span f_/);
    // Down to the first marked unit: system, question, two parents and a span come before it.
    for (let row = 0; row < 5; row += 1) opened.keys("Down");
    await opened.shows(/→ {2}█ marked 1/);
    opened.keys("p");
    await opened.shows(/→ {2}█ pinned/);
    assert.match(barOf(opened.text()), /2 Pin\)/);
    opened.keys("Down");
    await opened.shows(/→ {2}█ marked/);
    opened.keys("u");
    await opened.shows(/→ {2}█ withdrawn/);
    // The whole mark is withdrawn, and its units are two.
    opened.keys("Down", "Down");
    await opened.shows(/→ {2}█ marked/);
    opened.keys("b");
    await opened.shows(/What the fold will say/);
    opened.type("The tenth result: all is well, see y.txt");
    opened.keys("Enter");
    await opened.shows(/→ {2}█ marked[^]*esc closes/);
    opened.keys("Down", "c");
    await opened.shows(/The mark becomes 2 cuts/);
    for (let row = 0; row < 5; row += 1) opened.keys("Up");
    await opened.shows(/→▸ █ span/);
    opened.keys("e");
    await opened.shows(/span f_[0-9a-f]+[^\n]*expanded|is expanded by one level/);
    opened.keys("Escape");
    await opened.shows((text) => !/esc closes/.test(text));
    opened.close();
    const kinds = decisions(file).map((data) => JSON.stringify(data));
    for (const word of ["pin", "unmark", "brief"]) assert.ok(kinds.some((data) => data.includes(word)), `${word}: ${kinds}`);
    assert.ok(records(pi.SessionManager.open(file)).some((data) => JSON.stringify(data).includes("expand")), "the expansion");
  });

  test("/fold folds at once, says what it did, and the bar tells that its reading is old", async () => {
    const { path, file } = await folded(60);
    const before = records(pi.SessionManager.open(file)).length;
    const opened = show(path, { session: file, columns: 120 });
    await opened.shows(/commit at/);
    opened.type("/fold");
    opened.keys("Enter");
    await opened.shows(/\d+ folds, [\d,]+ to [\d,]+ tokens/);
    assert.match(barOf(await opened.shows(/before the last change/)), /% before the last change · commit at 80% · \d+ Folds/);
    opened.close();
    assert.equal(records(pi.SessionManager.open(file)).length, before + 1);
  });

  test("/fold-status tells budget, folds, pins, rewrites and the store, and lists folds page by page", async () => {
    const opened = show(session.path, { session: session.file, columns: 140, rows: 60 });
    await opened.shows(/commit at/);
    opened.type("/fold-status");
    opened.keys("Enter");
    const status = await opened.shows(/second copies/);
    for (const words of [/budget: 100000 tokens/, /folds: \d+: /, /at depth 2/, /pinned: 0 units/, /requests after a change/, /signed reasoning/, /second copies: all in/]) assert.match(status, words);
    opened.type("/fold-status tree");
    opened.keys("Enter");
    await opened.shows(/pi-fold: (tree, page 1 of \d+\s+)?f_[0-9a-f]+ · depth/);
    opened.type("/fold-status trees");
    opened.keys("Enter");
    await opened.shows(/\/fold-status takes nothing, or tree, folds, marks and a page/);
    opened.close();
  });

  test("settings are stepped and typed, live at once and saved whole; the bar is repainted while the dialog is open; what is refused says why", async () => {
    const { path, file } = await folded(20);
    const saved = join(path, "config/pi-fold/settings.json");
    const opened = show(path, { session: file, columns: 120 });
    await opened.shows(/commit at 80%/);
    opened.type("/fold-settings");
    opened.keys("Enter");
    await opened.shows(/→ thresholds.maxTarget +0.8/);
    opened.keys("Left");
    await opened.shows(/maxTarget +0.75[^]*commit at 75%/);
    assert.equal(JSON.parse(readFileSync(saved, "utf8")).thresholds.maxTarget, 0.75);
    opened.keys("Down", "Enter");
    await opened.shows(/enter takes it/);
    opened.keys("C-u");
    opened.type("0.9");
    opened.keys("Enter");
    await opened.shows(/thresholds need 0 < minTarget < maxTarget/);
    // What was refused stands there to be put right.
    await opened.shows(/enter takes it/);
    opened.keys("Escape");
    await opened.shows(/enter types a value/);
    assert.equal(JSON.parse(readFileSync(saved, "utf8")).thresholds.minTarget, 0.2, "nothing of it is saved");
    for (let row = 0; row < 8; row += 1) opened.keys("Down");
    await opened.shows(/→ palette.map/);
    const bar = () => opened.coloured().split("\n").findLast((line) => line.includes("commit at"));
    const painted = bar();
    opened.keys("Right");
    await opened.shows(/palette.map +viridis/);
    await opened.shows(() => bar() !== painted);
    opened.keys("Escape");
    await opened.shows((text) => !/escape closes/.test(text));
    opened.close();
    assert.equal(JSON.parse(readFileSync(saved, "utf8")).palette.map, "viridis");
  });

  test("what is told when a long session is opened is on the screen when it is", async () => {
    const { path, file } = await folded(60);
    mkdirSync(join(path, "config/pi-fold"), { recursive: true });
    writeFileSync(join(path, "config/pi-fold/settings.json"), '{"preCommitNotice": 7}');
    const opened = show(path, { session: file, columns: 160, rows: 30 });
    await opened.shows(/commit at/);
    await new Promise((done) => setTimeout(done, 1_000));
    assert.match(opened.text(), /settings\.json, line 1: preCommitNotice/);
    opened.close();
  });

  test("a settings file that is refused is told by line, left as it is, and not saved over", async () => {
    const path = folder();
    modelsFile(join(path, "agent"));
    const file = join(path, "config/pi-fold/settings.json");
    const wrong = '{\n  "thresholds": {\n    "maxTarget": 2,\n    "minTarget": 0.2,\n    "consolidateAfter": 10,\n    "minFoldChars": 8000\n  }\n}\n';
    mkdirSync(join(path, "config/pi-fold"), { recursive: true });
    writeFileSync(file, wrong);
    const opened = show(path, { columns: 160 });
    await opened.shows(/settings.json, line 3: thresholds.maxTarget is 2/);
    opened.type("/fold-settings");
    opened.keys("Enter");
    await opened.shows(/→ thresholds.maxTarget/);
    opened.keys("Left");
    await opened.shows(/nothing is saved over a file that is refused/);
    opened.close();
    assert.equal(readFileSync(file, "utf8"), wrong);
  });

  test("after a panic the bar says that folding has stopped, and a person's /fold starts it again", async () => {
    const { path, file } = await folded(60);
    const plant = join(path, "plant.mjs");
    const addon = new URL(`../dist/pi-fold.${process.platform}-${process.arch}.node`, import.meta.url).pathname;
    writeFileSync(plant, `import { createRequire } from "node:module";
const { Fold } = createRequire(import.meta.url)(${JSON.stringify(addon)});
export default (pi) => pi.registerCommand("plant", { description: "panics once", handler: async () => {
  const { turnNow } = Fold.prototype;
  Fold.prototype.turnNow = function () { Fold.prototype.turnNow = turnNow; return this.panicNow(); };
} });\n`);
    assert.ok(existsSync(addon));
    const opened = show(path, { session: file, columns: 120, extensions: [plant] });
    await opened.shows(/commit at/);
    for (const command of ["/plant", "/fold-status"]) {
      opened.type(command);
      opened.keys("Enter");
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    await opened.shows(/FOLDING STOPPED/);
    opened.type("/fold");
    opened.keys("Enter");
    await opened.shows(/before the last change · commit at/);
    opened.close();
  });
});
