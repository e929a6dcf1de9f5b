// The addon: what it answers, and where it is found.

import { createRequire } from "node:module";

/** An entry to append: the fields that Pi fills in (id, parent, time) are not in it. */
export type Draft =
  | { type: "custom"; customType: string; data: unknown }
  | { type: "custom_message"; customType: string; content: string; display: boolean }
  | { type: "context_edit"; targetId: string; replacement: { content: unknown } | null };

/** What a boundary answers. */
export interface Plan {
  kind: "quiet" | "deferred" | "recovery" | "notice" | "commit";
  drafts: Draft[];
  /** How many drafts at the beginning are records: with them alone the commit is made. */
  records?: number;
  trigger?: string;
  reason?: string | null;
  asksAgain?: boolean;
  left?: number;
  before?: number;
  after?: number;
  folds?: number;
  /** What a person is to be told. */
  message?: string;
  /** Before a request, where nothing is to be appended: what the request has to show. */
  request?: Request;
  /** Where a turn ends: what a person is to be told of the second copies. */
  store?: string | null;
}

/** What a request has to show beside the branch, and why it must not leave, if it must not. */
export interface Request {
  overlay: [target: string, content: unknown][];
  /** Entries whose promised content cannot be derived any more; they are shown as the branch has them. */
  lost: string[];
  stopped: string | null;
}

/** What a call of the tool answers. */
export interface Reply {
  text: string;
  refused: boolean;
  /** Why it was refused, as a person is told it. */
  why?: string;
  drafts: Draft[];
}

/** How the window stands; tokens and counts. */
export interface Status {
  occupancy: number;
  margin: number;
  budget: number;
  window: number;
  maxTarget: number;
  minTarget: number;
  folds: number;
  roots: number;
  tool: number;
  span: number;
  consolidated: number;
  marks: number;
  pinned: number;
  unwritten: number;
  suspended: string | null;
  /** How second copies stand, in a sentence. */
  copies: string;
  uncounted: [id: string, why: string][];
}

/** What the fold bar shows; tokens, and weights by category in the order of the bar. */
export interface Gauge {
  measured: number | null;
  /** Whether what is shown was changed since it was measured. */
  isOld: boolean;
  budget: number;
  maxTarget: number;
  minTarget: number;
  weights: number[];
  /** Visible folds: consolidated, span, tool. */
  folds: [number, number, number];
  marks: number;
  pinned: number;
  suspended: boolean;
}

/** A shade of the bar, and the deeper tone of a mark over it: red, green, blue. */
export type Shade = [shade: [number, number, number], deeper: [number, number, number]];

/** A row of the map: a fold where `fold` tells its kind, else a unit, where `state` tells why it stands as it does. */
export interface Row {
  id: string;
  category: number;
  entries: string[];
  /** Tokens that are shown of it, and those of its originals. */
  shown: number;
  original: number;
  /** The innermost expanded fold that it is shown for. */
  within: string | null;
  pinned: boolean;
  fold?: "tool" | "span" | "consolidated";
  depth?: number;
  place?: "root" | "expanded" | "within" | "dissolved" | "closed";
  gist?: string;
  state?: string;
  mark?: number | null;
}

/** A part of the originals behind some ids: from which byte to which, of how many. */
export interface Reading {
  text: string;
  start: number;
  end: number;
  whole: number;
}

/** A fold that is shown, as other extensions are offered it: the record of the 1.x generation, field by field. */
export interface Candidate {
  version: 1;
  key: string;
  kind: "projection";
  domain: "system";
  horizon: "working";
  source_id: string;
  /** SHA-256 of the exact lines it hides, one below the other. */
  source_version: string;
  route: { tool: "pi_fold_context"; arguments: { action: "expand"; id: string } };
  token_cost: number;
  expansion_cost: number;
  rank: number;
  score: number;
  raw_score: number;
  confidence: "exact";
  freshness: "current";
  locked_owner: false;
  collapse_key: string;
  generator: "projection-deterministic" | "projection-supplied";
  generator_version: "memory-slate-generators-v2";
  recency: null;
}

export type Moment = "turn_end" | "settling" | "request" | "refused" | "asked";

/** A session of the runtime. Every answer is JSON text; every call works off the main thread. */
export interface Fold {
  turn(lines: Buffer, moment?: Moment | null): Promise<string>;
  /** The same at once, where it is over in a moment; `null`: not now; the text `null`: the entries are taken, the moment is to be asked for. */
  turnNow(lines: Buffer, moment?: Moment | null): string | null;
  request(): Promise<string>;
  letsHostCompact(moment: Moment): Promise<string>;
  act(call: string, room: number): Promise<string>;
  status(): Promise<string>;
  gauge(): Promise<string>;
  map(inside?: string | null): Promise<string>;
  read(ids: readonly string[], offset: number, bytes: number): Promise<string>;
  candidates(): Promise<string>;
  configure(settings: string, window: number): Promise<string>;
  save(): Promise<string>;
  recover(fold: string): Promise<Buffer>;
  suspend(reason: string): Promise<string>;
  panic(): Promise<string>;
  panicNow(): string | null;
}

export interface Native {
  Fold: { open(branch: Buffer, settings: string, window: number, store?: string | null): Promise<Fold> };
  refusedSettings(text: string): Promise<string>;
  wholeSettings(text: string): Promise<string>;
  shadesOf(settings: string, isDark: boolean): Promise<string>;
  toolDescription(): string;
}

/** The addon of this platform: the package npm chose for it, or one that was built here. */
export function load(): Native {
  const require = createRequire(import.meta.url);
  const platform = `${process.platform}-${process.arch}`;
  const tried: string[] = [];
  for (const place of [`pi-fold-${platform}`, `./pi-fold.${platform}.node`]) {
    try {
      return require(place) as Native;
    } catch (error) {
      tried.push(`${place}: ${(error as Error).message.split("\n")[0]}`);
    }
  }
  throw new Error(`pi-fold has no addon for ${platform}. Tried ${tried.join("; ")}`);
}
