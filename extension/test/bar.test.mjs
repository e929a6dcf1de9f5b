// The fold bar: its widths, its words, and what it is drawn with.

import assert from "node:assert/strict";
import { test } from "node:test";
import { stripTerminalSequences, visibleWidth } from "@earendil-works/pi-tui";
import fc from "fast-check";
import { CELLS, edges, fill, paintFor, row, STEPS, suffix, widths } from "../dist/bar.js";

const bare = { shades: Array(6).fill(""), deeper: Array(6).fill(""), muted: (text) => text, error: (text) => text };
const gauge = (some) => ({
  measured: 34_000, isOld: false, budget: 100_000, maxTarget: 55_000, minTarget: 20_000,
  weights: [0, 0, 0, 0, 1_000, 0], folds: [0, 0, 0], marks: 0, pinned: 0, suspended: false, ...some,
});
const weights = fc.array(fc.oneof(fc.constant(0), fc.nat(20), fc.nat(2 ** 40)), { minLength: 6, maxLength: 6 });

test("the widths of the categories fill the bar exactly, whatever the weights", () => {
  fc.assert(fc.property(weights, fc.integer({ min: 0, max: STEPS }), (weights, steps) => {
    const taken = widths(weights, steps);
    const some = weights.some((weight) => weight > 0);
    assert.equal(taken.reduce((sum, width) => sum + width, 0), some ? steps : 0);
    assert.ok(taken.every((width, at) => weights[at] > 0 || width === 0), "nothing is drawn of nothing");
  }));
});

test("every category that is not empty takes a half-cell where there is room, and the heaviest win where there is not", () => {
  fc.assert(fc.property(weights, fc.integer({ min: 0, max: STEPS }), (weights, steps) => {
    const taken = widths(weights, steps);
    const filled = weights.filter((weight) => weight > 0).length;
    if (steps >= filled) assert.ok(taken.every((width, at) => weights[at] === 0 || width >= 1));
    for (const [at, weight] of weights.entries()) {
      for (const [other, lighter] of weights.entries()) if (weight > lighter) assert.ok(taken[at] >= taken[other], "the order of the weights");
    }
  }));
});

test("where every category is due more than a half-cell, each width is less than a step and a half from its share", () => {
  const heavy = fc.array(fc.integer({ min: 100, max: 1_000 }), { minLength: 6, maxLength: 6 });
  fc.assert(fc.property(heavy, (weights) => {
    const sum = weights.reduce((sum, weight) => sum + weight, 0);
    for (const [at, width] of widths(weights, STEPS).entries()) assert.ok(Math.abs(width - (weights[at] / sum) * STEPS) < 1.5);
  }));
});

test("the row fits any screen, whatever is in the window", () => {
  const any = fc.record({
    measured: fc.oneof(fc.constant(null), fc.nat(400_000)), isOld: fc.boolean(), weights,
    folds: fc.tuple(fc.nat(999), fc.nat(999), fc.nat(999)), marks: fc.nat(999), pinned: fc.nat(999), suspended: fc.boolean(),
  });
  fc.assert(fc.property(any, fc.integer({ min: 1, max: 220 }), (some, width) => {
    const line = row(gauge(some), bare, width);
    assert.ok(visibleWidth(line) <= width, `${visibleWidth(line)} of ${width}`);
    if (!some.suspended && width >= CELLS) assert.equal(visibleWidth(row(gauge(some), bare, CELLS)), CELLS);
  }));
  assert.ok(visibleWidth(row(undefined, bare, 200)) <= 200);
});

test("the fill is the measured share in half-cells, never nothing for something and never more than the bar", () => {
  const steps = (measured) => fill(gauge({ measured })).length;
  assert.deepEqual([null, 0, 1, 34_000, 100_000, 250_000].map(steps), [0, 0, 1, 27, STEPS, STEPS]);
});

test("the suffix names what is not zero, and nothing else", () => {
  const golden = [
    [{}, "34% · commit at 55% · 0 Folds"],
    [{ measured: null }, "not measured yet · commit at 55% · 0 Folds"],
    [{ isOld: true, folds: [0, 0, 1] }, "34% before the last change · commit at 55% · 1 Fold (1 Tool)"],
    [{ folds: [1, 2, 3], marks: 4, pinned: 5 }, "34% · commit at 55% · 6 Folds (1 Cons., 2 Span, 3 Tool, 4 Mark, 5 Pin)"],
    [{ marks: 7 }, "34% · commit at 55% · 0 Folds (7 Mark)"],
    [{ folds: [0, 12, 0], pinned: 2 }, "34% · commit at 55% · 12 Folds (12 Span, 2 Pin)"],
  ];
  for (const [some, words] of golden) assert.equal(suffix(gauge(some)), words);
});

test("the bar in plain text, at 60, 80 and 200 columns", () => {
  const some = gauge({ weights: [10, 10, 10, 30, 30, 10], folds: [1, 2, 3], marks: 4, pinned: 5 });
  const plain = (width) => stripTerminalSequences(row(some, bare, width));
  const drawn = "█▌██▌███┊███▌▌░░░░░░░░┊░░░░░░░░░░░░░░░░░";
  assert.equal(plain(200), `${drawn} 34% · commit at 55% · 6 Folds (1 Cons., 2 Span, 3 Tool, 4 Mark, 5 Pin)`);
  assert.equal(plain(80), `${drawn} 34% · commit at 55% · 6 Folds (1 Con...`);
  assert.equal(plain(60), `${drawn} 34% · commit at ...`);
  assert.match(stripTerminalSequences(row(gauge({ measured: null }), bare, 80)), /^[░┊]{40} not measured yet/);
  assert.match(stripTerminalSequences(row(undefined, bare, 80)), /^░{40} mapping$/);
  assert.match(row(gauge({ suspended: true }), bare, 80), /^FOLDING STOPPED/);
});

test("the edges of the band stand in their cells, also where they are at an end", () => {
  assert.deepEqual([...edges(gauge({}))], [8, 22]);
  assert.deepEqual([...edges(gauge({ minTarget: 1, maxTarget: 99_999 }))], [0, 39]);
});

test("colours are the palette's on a screen that shows them, and the theme's own elsewhere; what one sequence opens is closed", () => {
  const theme = (mode) => ({ getColorMode: () => mode, getFgAnsi: (token) => `\x1b[38;5;${token.length}m`, fg: (_, text) => text });
  const shades = Array.from({ length: 6 }, (_, at) => [[at, 100, 200], [at, 10, 20]]);
  const some = gauge({ weights: [10, 10, 10, 30, 30, 10], measured: 90_000 });
  const painted = row(some, paintFor(theme("truecolor"), shades), 200);
  assert.ok(painted.includes("\x1b[38;2;0;100;200m█"), "the first shade");
  assert.match(painted, /\x1b\[48;2;\d;100;200m\x1b\[38;2;\d;10;20m┊/, "a mark in a deeper tone over its fill");
  const plain = row(some, paintFor(theme("256color"), shades), 200);
  assert.ok(!plain.includes("38;2;") && plain.includes("\x1b[38;5;"));
  for (const line of [painted, plain]) assert.ok(line.lastIndexOf("\x1b[39") > line.lastIndexOf("\x1b[38;"), "closed");
});
