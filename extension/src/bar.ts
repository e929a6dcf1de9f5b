// The fold bar: how full the window is, and of what. Drawing only; every number comes from the runtime.

import { truncateToWidth, visibleWidth } from "@earendil-works/pi-tui";
import type { Gauge, Shade } from "./native.ts";
import type { Theme } from "./pi.ts";

/** Cells of the bar; each holds two steps. */
export const CELLS = 40;
export const STEPS = 2 * CELLS;
/** The categories, most compressed first, as the suffix names those that it counts. */
export const CATEGORIES = ["Cons.", "Span", "Tool", "Mark", "Raw", "Pin"] as const;
/** Six steps of a theme's own that form a gradient, for terminals without 24-bit colours. */
const TOKENS = ["thinkingOff", "thinkingMinimal", "thinkingLow", "thinkingMedium", "thinkingHigh", "thinkingXhigh"] as const;
const TRACK = "░";
const MARK = "┊";

/** How the six categories are painted: their colours as text, and those of a mark drawn over them. */
export interface Paint {
  /** Opening escape sequences for the foreground, by category. */
  shades: readonly string[];
  deeper: readonly string[];
  muted: (text: string) => string;
  error: (text: string) => string;
}

/** Paint for a screen: the palette's shades where it shows 24-bit colours, else the theme's own. */
export function paintFor(theme: Theme, shades: readonly Shade[]): Paint {
  const rgb = ([r, g, b]: readonly [number, number, number]) => `\x1b[38;2;${r};${g};${b}m`;
  const isTrue = theme.getColorMode() === "truecolor" && shades.length === CATEGORIES.length;
  const tokens = TOKENS.map((token) => theme.getFgAnsi(token));
  return {
    shades: isTrue ? shades.map(([shade]) => rgb(shade)) : tokens,
    // A theme knows no deeper tone of its own colours: the mark is cut out of the fill instead.
    deeper: isTrue ? shades.map(([, deeper]) => rgb(deeper)) : tokens.map(() => "\x1b[39m"),
    muted: (text) => theme.fg("dim", text),
    error: (text) => theme.fg("error", text),
  };
}

/**
 * How many of `steps` each category takes: by its weight, but every one that is not empty takes at least one where there are enough; where
 * there are not, the heaviest take one each.
 */
export function widths(weights: readonly number[], steps: number): number[] {
  const taken = weights.map(() => 0);
  const filled = weights.map((weight, at) => ({ weight, at })).filter(({ weight }) => weight > 0);
  const heaviest = [...filled].sort((left, right) => right.weight - left.weight || left.at - right.at);
  for (const { at } of heaviest.slice(0, steps)) taken[at] = 1;
  // Each further step goes where it is owed most: the widths are in the order of the weights, and sum up exactly.
  for (let left = steps - filled.length; left > 0 && filled.length > 0; left -= 1) {
    const owed = ({ weight, at }: { weight: number; at: number }) => weight / (2 * taken[at]! + 1);
    const next = filled.reduce((best, other) => (owed(other) > owed(best) ? other : best));
    taken[next.at]! += 1;
  }
  return taken;
}

/** The category of each step from the left, as far as the bar is filled. */
export function fill(gauge: Gauge): number[] {
  if (gauge.measured === null || gauge.budget === 0) return [];
  const share = Math.min(1, gauge.measured / gauge.budget);
  const steps = gauge.measured === 0 ? 0 : Math.max(1, Math.round(share * STEPS));
  return widths(gauge.weights, steps).flatMap((width, category) => Array<number>(width).fill(category));
}

/** The cells in which the edges of the band stand. */
export function edges(gauge: Gauge): Set<number> {
  const cell = (tokens: number) => Math.min(CELLS - 1, Math.floor((tokens / gauge.budget) * CELLS));
  return new Set([cell(gauge.minTarget), cell(gauge.maxTarget)]);
}

function bar(gauge: Gauge, paint: Paint): string {
  const steps = fill(gauge);
  const marks = edges(gauge);
  const over = (shade: string) => shade.replace(/^\x1b\[(\d)(8;|\d)/, (_, tens: string, rest: string) => backdrop(tens, rest));
  let line = "";
  for (let cell = 0; cell < CELLS; cell += 1) {
    const [left, right] = [steps[2 * cell], steps[2 * cell + 1]];
    if (left === undefined) {
      line += paint.muted(marks.has(cell) ? MARK : TRACK);
    } else if (marks.has(cell)) {
      line += `${over(paint.shades[left]!)}${paint.deeper[left]!}${MARK}\x1b[39;49m`;
    } else if (right === undefined) {
      line += `${paint.shades[left]!}▌\x1b[39m`;
    } else if (left === right) {
      line += `${paint.shades[left]!}█\x1b[39m`;
    } else {
      line += `${over(paint.shades[right]!)}${paint.shades[left]!}▌\x1b[39;49m`;
    }
  }
  return line;
}

/** The background that a foreground's escape sequence begins like: 38 becomes 48, 3x becomes 4x, 9x becomes 10x. */
function backdrop(tens: string, rest: string): string {
  return `\x1b[${tens === "9" ? "10" : "4"}${rest}`;
}

/**
 * What stands behind the bar, in words; counts in the colours of their categories where there is paint. Where there is little room, that a reading is
 * old is said in a word.
 */
export function suffix(gauge: Gauge, paint?: Paint, isShort = false): string {
  const percent = (tokens: number) => `${Math.round((100 * tokens) / gauge.budget)}%`;
  const old = (reading: string) => (!gauge.isOld ? reading : isShort ? `was ${reading}` : `${reading} before the last change`);
  const reading = gauge.measured === null ? "not measured yet" : old(percent(gauge.measured));
  const [consolidated, span, tool] = gauge.folds;
  const counts = [consolidated, span, tool, gauge.marks, 0, gauge.pinned];
  const told = counts.flatMap((count, category) => {
    if (count === 0) return [];
    const words = `${count} ${CATEGORIES[category]}`;
    return [paint ? `${paint.shades[category]!}${words}\x1b[39m` : words];
  });
  const folds = consolidated + span + tool;
  const number = `${folds} ${folds === 1 ? "Fold" : "Folds"}`;
  return `${reading} · commit at ${percent(gauge.maxTarget)} · ${number}${told.length > 0 ? ` (${told.join(", ")})` : ""}`;
}

/** The row above the footer, no wider than the screen. */
export function row(gauge: Gauge | undefined, paint: Paint, width: number): string {
  let line: string;
  if (gauge === undefined) line = `${paint.muted(TRACK.repeat(CELLS))} mapping`;
  else if (gauge.suspended) line = `${paint.error("FOLDING STOPPED")} · /fold-status says why`;
  else {
    const isShort = CELLS + 1 + visibleWidth(suffix(gauge)) > width;
    line = `${bar(gauge, paint)} ${suffix(gauge, paint, isShort)}`;
  }
  return truncateToWidth(line, width);
}
