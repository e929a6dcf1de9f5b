// The dialog of `/fold-settings`: the seven options, a step or an exact value at a time. What is refused changes nothing.

import { type Component, Input, truncateToWidth, type TUI, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import type { KeybindingsManager, Theme } from "./pi.ts";
import { printable } from "./words.ts";

/** The options, as the file holds them. */
export interface Options {
  thresholds: { maxTarget: number; minTarget: number; consolidateAfter: number; minFoldChars: number };
  providerInputBudget?: number;
  blacklistAutoFoldTools: string[];
  toolFoldThreshold: number;
  preCommitNotice: boolean;
  noticeLeadShare: number;
  palette: { map: string; start: number; end: number };
}

/** Puts a value in force: the options as they are then, where it did; what a person is to be told, where there is something. */
export type Apply = (path: string, value: unknown) => Promise<{ options?: Options; said?: string }>;

/** One line of the dialog: the path of what it sets, what that is, and its steps. */
type Field = readonly [path: string, about: string, steps: readonly (number | string | boolean | undefined)[]];

const range = (from: number, to: number, by: number) =>
  Array.from({ length: Math.round((to - from) / by) + 1 }, (_, at) => Math.round((from + at * by) * 100) / 100);

const FIELDS: readonly Field[] = [
  ["thresholds.maxTarget", "a commit fires at this share of the budget", range(0.4, 0.95, 0.05)],
  ["thresholds.minTarget", "and stops at this one", range(0.05, 0.6, 0.05)],
  ["thresholds.consolidateAfter", "so many folds of one depth become one", [2, 3, 4, 5, 6, 8, 10, 12, 15, 20]],
  ["thresholds.minFoldChars", "bytes a fold has to hide", [2_000, 4_000, 8_000, 16_000, 32_000]],
  ["providerInputBudget", "tokens a request may hold; none: the model's context window", [undefined, 100_000, 150_000, 200_000, 250_000, 500_000, 1_000_000]],
  ["blacklistAutoFoldTools", "tools whose results stay as they are, separated by commas", []],
  ["toolFoldThreshold", "the oldest share of the window whose results a commit clips; 0: none", range(0, 0.9, 0.1)],
  ["preCommitNotice", "tell the agent once that a commit is near", [false, true]],
  ["noticeLeadShare", "how far below the commit that is", [0.02, 0.05, 0.1, 0.15, 0.2]],
  ["palette.map", "the colours of the fold bar", ["batlow", "viridis", "plasma", "magma", "cividis"]],
  ["palette.start", "where on the map the most compressed shade lies", range(0, 1, 0.1)],
  ["palette.end", "and where the pinned one does", range(0, 1, 0.1)],
];
const NAMES = Math.max(...FIELDS.map(([path]) => path.length));

type Tree = Record<string, unknown>;

function get(options: Options, path: string): unknown {
  return path.split(".").reduce<unknown>((at, name) => (at as Tree)[name], options);
}

/** The options with another value at a path; `undefined` takes it out. */
export function set(options: Options, path: string, value: unknown): Options {
  const [first, ...rest] = path.split(".") as [string, ...string[]];
  const within = (options as unknown as Tree)[first];
  const whole: Tree = { ...options, [first]: rest.length === 0 ? value : { ...(within as Tree), [rest[0]!]: value } };
  if (whole[first] === undefined) delete whole[first];
  return whole as unknown as Options;
}

function spoken(value: unknown): string {
  if (value === undefined) return "none";
  if (Array.isArray(value)) return value.length === 0 ? "none" : printable(value.join(", ")).replaceAll("\n", " ");
  return typeof value === "number" && value > 1 ? value.toLocaleString("en-US") : String(value);
}

/** What a person typed, as the field takes it; whether it is allowed is not asked here. */
function read(path: string, text: string): unknown {
  const typed = text.trim();
  if (path === "blacklistAutoFoldTools") return typed === "" || typed === "none" ? [] : typed.split(",").map((name) => name.trim());
  if (path === "providerInputBudget" && (typed === "" || typed === "none")) return undefined;
  if (typed === "true" || typed === "false") return typed === "true";
  const number = Number(typed.replaceAll(/[,_ ]/g, ""));
  return typed !== "" && Number.isFinite(number) ? number : typed;
}

/** `apply` puts a value in force and answers with the options as they are then, or why it did not. */
export class SettingsDialog implements Component {
  #options: Options;
  readonly #apply: Apply;
  readonly #tui: TUI;
  readonly #theme: Theme;
  readonly #keys: KeybindingsManager;
  readonly #done: () => void;
  #at = 0;
  #typing: Input | undefined;
  #said = "";
  /** Steps are put in force one after another. */
  #line: Promise<void> = Promise.resolve();

  constructor(
    options: Options,
    apply: Apply,
    tui: TUI,
    theme: Theme,
    keys: KeybindingsManager,
    done: () => void,
  ) {
    this.#options = options;
    this.#apply = apply;
    this.#tui = tui;
    this.#theme = theme;
    this.#keys = keys;
    this.#done = done;
  }

  invalidate(): void {}

  render(width: number): string[] {
    const theme = this.#theme;
    const [chosen, about] = FIELDS[this.#at]!;
    const lines = FIELDS.map(([path], at) => {
      const line = `${at === this.#at ? "→ " : "  "}${path.padEnd(NAMES)}  ${spoken(get(this.#options, path))}`;
      return at === this.#at ? theme.fg("accent", line) : line;
    });
    if (this.#typing) {
      const input = this.#typing.render(Math.max(4, width - NAMES - 3))[0] ?? "";
      lines[this.#at] = `${theme.fg("accent", `→ ${chosen.padEnd(NAMES)}`)} ${input}`;
    }
    const hint = this.#typing ? "enter takes it, escape does not; nothing leaves it as it is" : "↑↓ choose · ←→ step · enter types a value · escape closes";
    return [
      theme.fg("accent", "Fold settings"),
      ...lines,
      theme.fg("muted", `  ${about}`),
      ...(this.#said ? wrapTextWithAnsi(theme.fg("error", `  ${printable(this.#said).replaceAll("\n", " ")}`), width) : [""]),
      theme.fg("dim", `  ${hint}`),
    ].map((line) => truncateToWidth(line, width));
  }

  handleInput(data: string): void {
    if (this.#typing) {
      this.#typing.handleInput(data);
    } else if (this.#keys.matches(data, "tui.select.cancel")) {
      this.#done();
      return;
    } else if (this.#keys.matches(data, "tui.select.up")) {
      this.#go(-1);
    } else if (this.#keys.matches(data, "tui.select.down")) {
      this.#go(1);
    } else if (this.#keys.matches(data, "tui.editor.cursorLeft")) {
      this.#step(-1);
    } else if (this.#keys.matches(data, "tui.editor.cursorRight")) {
      this.#step(1);
    } else if (this.#keys.matches(data, "tui.select.confirm")) {
      this.#type();
    }
    this.#tui.requestRender();
  }

  #go(by: number): void {
    this.#at = (this.#at + by + FIELDS.length) % FIELDS.length;
    this.#said = "";
  }

  /** The next step in this direction from where the value is, which need not be on a step itself. */
  #step(by: -1 | 1): void {
    const [path, , steps] = FIELDS[this.#at]!;
    const value = get(this.#options, path);
    const at = steps.findIndex((step) => step === value);
    const number = (step: unknown) => (typeof step === "number" ? step : Number.NEGATIVE_INFINITY);
    const isBeyond = (step: unknown) => (by > 0 ? number(step) > number(value) : number(step) < number(value));
    const next = at >= 0 ? at + by : by > 0 ? steps.findIndex(isBeyond) : steps.findLastIndex(isBeyond);
    if (next >= 0 && next < steps.length) this.#set(path, steps[next]);
  }

  /** Takes a value letter by letter: a list goes on from what it is, everything else is written anew, what was refused too. */
  #type(begun?: string): void {
    const [path] = FIELDS[this.#at]!;
    const input = new Input();
    const value = get(this.#options, path);
    input.setValue(begun ?? (Array.isArray(value) ? value.join(", ") : ""));
    // The cursor goes to the end of what stands there.
    input.handleInput("\x05");
    input.focused = true;
    input.onSubmit = (text: string) => {
      this.#typing = undefined;
      if (text.trim() === "" && !Array.isArray(value)) return;
      this.#set(path, read(path, text), text);
    };
    input.onEscape = () => {
      this.#typing = undefined;
    };
    this.#typing = input;
  }

  #set(path: string, value: unknown, typed?: string): void {
    this.#line = this.#line.then(async () => {
      const { options, said } = await this.#apply(path, value);
      this.#said = said ?? "";
      if (options) this.#options = options;
      else if (typed !== undefined && !this.#typing && FIELDS[this.#at]![0] === path) this.#type(typed);
      this.#tui.requestRender();
    });
  }
}
