// The map of `/fold-editor`: what the window holds, in the bar's colours; originals read, folds opened, held, cut anew. It only asks: what is
// done, and what is refused, the runtime answers.

import { type Component, truncateToWidth, type TUI, visibleWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import { type Paint, row as bar } from "./bar.ts";
import type { Gauge, Reading, Row } from "./native.ts";
import type { KeybindingsManager, Theme } from "./pi.ts";
import { printable } from "./words.ts";

/** How much of an original is read at once. */
export const READ_BYTES = 64_000;

/** What the editor asks of the session. */
export interface Asked {
  gauge(): Promise<Gauge | undefined>;
  /** The window, or what a fold holds; `undefined` where it is gone. */
  map(inside?: string): Promise<Row[] | undefined>;
  /** A call of the tool, carried out; what it answers. */
  act(call: object): Promise<{ text: string; refused: boolean } | undefined>;
  /** Originals as text, from a byte on. */
  read(ids: readonly string[], offset: number): Promise<Reading | undefined>;
  /** What the model is shown of these entries. */
  seen(ids: readonly string[]): Promise<string>;
  /** What an entry is about, in a line. */
  gist(id: string): string;
}

/** Why the editor closed: for good, or to have a text written. */
export type Left = { brief: string } | undefined;

/** Where a person was, when the map is shown again. */
export interface Place {
  at: number;
  open: Set<string>;
  said: string;
}

/** A row where it is drawn: how deep it lies, and what a new cut would be made of. */
interface Line {
  row: Row;
  depth: number;
  /** The fold or the mark it lies in. */
  of?: string;
  /** The line of the fold it stands below. */
  below?: number;
}

/** A text that is read, how far it is scrolled, and how to read what comes before and after it, where something does. */
interface Page {
  title: string;
  text: string;
  top: number;
  /** The text in lines of a width, kept from one drawing to the next. */
  wrapped?: { width: number; lines: string[] };
  before?: () => void;
  after?: () => void;
}

/** Lines that an answer may take. */
const SAID = 6;

const HINT =
  "↑↓ ←→ browse · enter reads · s what the model sees · e expand · r refold · p pin · u unmark · c cut here · b brief · esc closes";

export class Editor implements Component {
  readonly #asked: Asked;
  readonly #tui: TUI;
  readonly #theme: Theme;
  readonly #keys: KeybindingsManager;
  readonly #paint: () => Paint;
  readonly #done: (left: Left) => void;
  #gauge: Gauge | undefined;
  #lines: Line[] = [];
  #isRead = false;
  readonly #open: Set<string>;
  #at: number;
  #said = "";
  /** A text that is read instead of the map, and how far it is scrolled. */
  #page: Page | undefined;
  /** One thing after another. */
  #line: Promise<void> = Promise.resolve();

  constructor(
    asked: Asked,
    place: Place,
    tui: TUI,
    theme: Theme,
    keys: KeybindingsManager,
    paint: () => Paint,
    done: (left: Left) => void,
  ) {
    this.#asked = asked;
    this.#tui = tui;
    this.#theme = theme;
    this.#keys = keys;
    this.#paint = paint;
    this.#open = place.open;
    this.#at = place.at;
    this.#said = place.said;
    this.#done = (left) => {
      place.at = this.#at;
      done(left);
    };
    this.#later(() => this.#load());
  }

  invalidate(): void {}

  render(width: number): string[] {
    const height = Math.max(5, this.#tui.terminal.rows - 12);
    const lines = this.#page ? this.#reader(this.#page, width, height) : this.#map(width, height);
    return lines.map((line) => truncateToWidth(line, width));
  }

  handleInput(data: string): void {
    if (this.#page) this.#turns(data, this.#page);
    else this.#browses(data);
    this.#tui.requestRender();
  }

  #map(width: number, height: number): string[] {
    const paint = this.#paint();
    const top = Math.max(0, Math.min(this.#at - Math.floor(height / 2), this.#lines.length - height));
    const drawn = this.#lines.slice(top, top + height).map((line, at) => this.#drawn(line, top + at === this.#at, width, paint));
    const { length } = this.#lines;
    const place = length > height ? ` ${top + 1} to ${Math.min(length, top + height)} of ${length}` : "";
    return [
      this.#theme.fg("accent", `The window, oldest first${place}`),
      bar(this.#gauge, paint, width),
      ...(length === 0 ? [this.#theme.fg("dim", this.#isRead ? "  nothing yet" : "  reading")] : drawn),
      ...(this.#said ? wrapTextWithAnsi(this.#theme.fg("muted", printable(this.#said)), width).slice(0, SAID) : [""]),
      ...wrapTextWithAnsi(this.#theme.fg("dim", HINT), width),
    ];
  }

  #drawn({ row, depth }: Line, isChosen: boolean, width: number, paint: Paint): string {
    const isOpen = row.place === "expanded" || this.#open.has(row.id);
    const sign = row.fold === undefined ? " " : isOpen ? "▾" : "▸";
    const what = row.fold !== undefined ? `${row.fold} ${row.id} · ${count(row)}` : row.mark ? `${row.state} ${row.mark}` : (row.state ?? "");
    const more = [row.fold !== undefined && row.place !== "root" && row.place !== "within" ? row.place : "", row.pinned && row.fold ? "pinned" : ""];
    const about = row.fold !== undefined ? (row.gist ?? "").replace(/^\| /, "") : this.#asked.gist(row.entries[0] ?? row.id);
    const words = [`${what}${more.filter(Boolean).map((word) => `, ${word}`).join("")}`, about].filter(Boolean).join(" · ");
    const number = (tokens: number) => tokens.toLocaleString("en-US");
    const size = row.original > row.shown ? `${number(row.shown)} of ${number(row.original)}` : number(row.shown);
    const head = `${isChosen ? "→" : " "}${"  ".repeat(depth)}${sign}`;
    const room = Math.max(0, width - visibleWidth(head) - 3 - size.length - 1);
    const text = truncateToWidth(printable(words).replaceAll(/\s+/g, " "), room);
    const line = `${head} ${paint.shades[row.category] ?? ""}█\x1b[39m ${text}${" ".repeat(Math.max(1, room - visibleWidth(text) + 1))}${size}`;
    return isChosen ? this.#theme.bold(line) : line;
  }

  #reader(page: Page, width: number, height: number): string[] {
    if (page.wrapped?.width !== width) page.wrapped = { width, lines: printable(page.text).split("\n").flatMap((line) => wrapTextWithAnsi(line, width)) };
    const { lines } = page.wrapped;
    page.top = Math.max(0, Math.min(page.top, lines.length - height));
    return [
      this.#theme.fg("accent", `${printable(page.title)} · lines ${page.top + 1} to ${Math.min(lines.length, page.top + height)} of ${lines.length}`),
      ...lines.slice(page.top, page.top + height),
      this.#theme.fg("dim", ["↑↓ pgup pgdn scroll", page.after ? "n goes on" : "", page.before ? "v goes back" : "", "esc closes it"].filter(Boolean).join(" · ")),
    ];
  }

  #turns(data: string, page: Page): void {
    const height = Math.max(5, this.#tui.terminal.rows - 12);
    if (this.#keys.matches(data, "tui.select.cancel") || data === "q") this.#page = undefined;
    else if (this.#keys.matches(data, "tui.select.up")) page.top -= 1;
    else if (this.#keys.matches(data, "tui.select.down")) page.top += 1;
    else if (this.#keys.matches(data, "tui.select.pageUp")) page.top -= height;
    else if (this.#keys.matches(data, "tui.select.pageDown") || data === " ") page.top += height;
    else if (data === "n") page.after?.();
    else if (data === "v") page.before?.();
  }

  #browses(data: string): void {
    const chosen = this.#lines[this.#at];
    const last = this.#lines.length - 1;
    const height = Math.max(5, this.#tui.terminal.rows - 12);
    const go = (by: number) => {
      this.#at = Math.max(0, Math.min(last, this.#at + by));
      this.#said = "";
    };
    if (this.#keys.matches(data, "tui.select.cancel") || data === "q") return this.#done(undefined);
    if (this.#keys.matches(data, "tui.select.up")) return go(-1);
    if (this.#keys.matches(data, "tui.select.down")) return go(1);
    if (this.#keys.matches(data, "tui.select.pageUp")) return go(-height);
    if (this.#keys.matches(data, "tui.select.pageDown")) return go(height);
    if (!chosen) return;
    const { row, of, below } = chosen;
    if (this.#keys.matches(data, "tui.editor.cursorRight")) return this.#unfolds(row, true);
    if (this.#keys.matches(data, "tui.editor.cursorLeft")) {
      // From what stands in a fold, back to the fold.
      if ((row.fold === undefined || !this.#open.has(row.id)) && below !== undefined) return go(below - this.#at);
      return this.#unfolds(row, false);
    }
    if (this.#keys.matches(data, "tui.select.confirm")) return this.#reads(row);
    if (data === "s") return this.#sees(row);
    if (data === "e") return this.#acts({ action: "expand", id: row.id });
    // What is shown of an expanded fold goes back into it.
    if (data === "r") return this.#acts({ action: "refold", id: row.place === "expanded" ? row.id : (row.within ?? row.id) });
    if (data === "p") return this.#acts({ action: row.pinned ? "unpin" : "pin", ids: [row.id] });
    if (data === "u") return this.#acts({ action: "unmark", ids: [row.id] });
    if (data === "c") return this.#acts({ action: "reboundary", id: of ?? row.id, at: [row.id] });
    if (data === "b") return this.#done({ brief: row.id });
  }

  #unfolds(row: Row, opens: boolean): void {
    if (row.fold === undefined || row.place === "expanded") return;
    if (opens) this.#open.add(row.id);
    else this.#open.delete(row.id);
    this.#later(() => this.#load());
  }

  /** Reads the originals of a row: all that a fold hides, or a call with its results. `from` are the offsets that were read before this one. */
  #reads(row: Row, offset = 0, from: readonly number[] = []): void {
    this.#later(async () => {
      const read = await this.#asked.read(row.fold === undefined ? row.entries : [row.id], offset);
      if (read) this.#shows(row.id, "bytes", read, offset, from, (offset, from) => this.#reads(row, offset, from));
    });
  }

  /** A part of a text, and how to come to those before and after it. */
  #shows(title: string, unit: string, read: Reading, offset: number, from: readonly number[], go: (offset: number, from: readonly number[]) => void): void {
    const number = (count: number) => count.toLocaleString("en-US");
    const part = read.end - read.start < read.whole ? `, ${unit} ${number(read.start)} to ${number(read.end)} of ${number(read.whole)}` : "";
    const last = from.at(-1);
    this.#page = {
      title: `${title}${part}`,
      text: read.text,
      top: 0,
      ...(read.end < read.whole ? { after: () => go(read.end, [...from, offset]) } : {}),
      ...(last === undefined ? {} : { before: () => go(last, from.slice(0, -1)) }),
    };
  }

  #sees(row: Row): void {
    this.#later(async () => {
      const text = await this.#asked.seen(row.entries);
      const show = (offset: number, from: readonly number[]): void => {
        const end = Math.min(text.length, offset + READ_BYTES);
        const read = { text: text.slice(offset, end), start: offset, end, whole: text.length };
        this.#shows(`What the model sees of ${row.id}`, "characters", read, offset, from, show);
      };
      show(0, []);
    });
  }

  #acts(call: object): void {
    this.#later(async () => {
      const reply = await this.#asked.act(call);
      this.#said = reply?.text ?? "nothing is folded in this session now";
      await this.#load();
    });
  }

  async #load(): Promise<void> {
    const lines: Line[] = [];
    // Expanded folds stand before what is shown of them: their lines, and how deep these lie.
    const expanded = new Map<string, { at: number; depth: number }>();
    const walk = async (rows: readonly Row[], depth: number, of?: string, fold?: number): Promise<void> => {
      const marks = new Map<number, string>();
      for (const row of rows) {
        if (row.mark && !marks.has(row.mark)) marks.set(row.mark, row.id);
        const within = row.mark ? marks.get(row.mark) : of;
        const around = row.within ? expanded.get(row.within) : undefined;
        const below = around?.at ?? fold;
        const own = around ? around.depth + 1 : depth;
        if (row.place === "expanded") expanded.set(row.id, { at: lines.length, depth: own });
        const at = lines.length;
        lines.push({ row, depth: own, ...(within === undefined ? {} : { of: within }), ...(below === undefined ? {} : { below }) });
        if (row.fold === undefined || row.place === "expanded" || !this.#open.has(row.id)) continue;
        const held = await this.#asked.map(row.id);
        if (held) await walk(held, own + 1, row.id, at);
        else this.#open.delete(row.id);
      }
    };
    await walk((await this.#asked.map()) ?? [], 0);
    // The bar is drawn after what changed it, and before what is asked next.
    this.#gauge = await this.#asked.gauge();
    // The choice stays where it was, whatever came or went above it.
    const chosen = this.#lines[this.#at];
    const again = chosen ? lines.findIndex(({ row, depth }) => row.id === chosen.row.id && depth === chosen.depth) : -1;
    if (again >= 0) this.#at = again;
    this.#lines = lines;
    this.#isRead = true;
    this.#at = Math.max(0, Math.min(this.#at, lines.length - 1));
  }

  #later(work: () => Promise<void>): void {
    this.#line = this.#line.then(work).catch((error: unknown) => {
      this.#said = error instanceof Error ? error.message : String(error);
    });
    void this.#line.then(() => this.#tui.requestRender());
  }
}

function count(row: Row): string {
  return `${row.entries.length} ${row.entries.length === 1 ? "entry" : "entries"}`;
}
