// Pi's events in, entries to append out. Nothing is decided here: what is appended, shown or stopped is what the runtime answered.

import { isContextOverflow } from "@earendil-works/pi-ai";
import { statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Evidence } from "./evidence.ts";
import { asWritten, grown, lines } from "./journal.ts";
import type { Candidate, Draft, Fold, Gauge, Moment, Native, Plan, Reading, Reply, Request, Row, Shade, Status } from "./native.ts";
import { layOver } from "./overlay.ts";
import type {
  AgentBeforeSettleEvent,
  AgentMessage,
  BoundaryResult,
  ExtensionAPI,
  ExtensionContext,
  SessionBoundaryDraft,
  SessionEntry,
  TurnEndEvent,
} from "./pi.ts";
import { Screen } from "./screen.ts";
import { readSettings, saveSettings } from "./settings.ts";
import { type Options, set } from "./settings-dialog.ts";
import { counted, say } from "./words.ts";

/** Bytes that have to be free where the session is written, besides ten times what a boundary writes: a torn line can orphan a session. */
const ROOM = 16 * 1024 * 1024;

/** The room, in tokens, that what a person reads may take: it goes into no window. */
const ANY = 0xffff_ffff;
/** Tokens that Pi leaves free where its settings do not say. */
const PI_RESERVE = 16_384;
/** Actions that change what the next request shows: each is a record of its own. */
const RECORDS = ["expand", "refold", "reboundary"];
/** What a person is told where no session is folded. */
export const NONE = "nothing is folded in this session now";
/** A while in which Pi draws a session that was opened, in milliseconds. */
const AFTERWARDS = 300;
/** What takes longer than this, in milliseconds, is told while it lasts. */
const LONG = 300;

type Notice = [words: string, level: "info" | "warning" | "error"];

export class Folding {
  /** The row above the footer. */
  readonly screen = new Screen();
  readonly #pi: ExtensionAPI;
  readonly #native: Native;
  readonly #given: object | undefined;
  readonly #evidence = new Evidence();
  #settings = "{}";
  #fold: Fold | undefined;
  /** The last entry the runtime has seen, and the context window it was told of. */
  #leaf: string | null = null;
  #window = 0;
  /** The session file that this process has read. */
  #read: string | undefined;
  /** Calls are made one after another: each sees what those before it did. */
  #line: Promise<unknown> = Promise.resolve();
  /** The first draft of the last boundary of ours, until it is seen on the branch; and whether one was not. */
  #proposed: string | undefined;
  #dropped = false;
  /**
   * Where a run stands: a request is `out`, whose answer will tell what the window held before anything that is done now; entries of ours are `handed` to
   * Pi and not on the branch yet; or neither.
   */
  #phase: "out" | "handed" | undefined;
  /** What a person asked for meanwhile: calls, and whether a commit. */
  #later: object[] = [];
  #asked = false;
  /** The failed answer to a request that the provider refused for its size. */
  #refused: string | undefined;
  /** Whether this Pi cannot do what folding needs. */
  #off = false;
  /** What is told when the session is open. */
  #held: Notice[] | undefined;
  /** What a person was told: nothing is told twice in a row. */
  #told = new Set<string>();

  constructor(pi: ExtensionAPI, native: Native, given: object | null | undefined) {
    this.#pi = pi;
    this.#native = native;
    this.#given = given ?? undefined;
  }

  /** Whether a session is folded. */
  get on(): boolean {
    return this.#fold !== undefined;
  }

  /** Nothing is folded in this process. */
  never(): void {
    this.#off = true;
  }

  /** Reads the branch from its root: a session begins, or another branch of it is taken. */
  open(ctx: ExtensionContext): Promise<void> {
    this.screen.show(ctx);
    return this.#inLine(ctx, async () => {
      [this.#phase, this.#later, this.#asked] = [undefined, [], false];
      // Pi writes a session's history when it has been opened: what is told before scrolls away with it.
      const held: Notice[] | undefined = ctx.mode === "tui" ? [] : undefined;
      this.#held = held;
      try {
        await this.#open(ctx);
      } finally {
        this.#held = undefined;
        if (held && held.length > 0) setTimeout(() => held.forEach(([words, level]) => this.#tell(ctx, words, level)), AFTERWARDS);
      }
    }).then(() => undefined);
  }

  /** Takes in what came, so that the bar tells how things stand. */
  takesIn(ctx: ExtensionContext): Promise<void> {
    return this.#inLine(ctx, () => this.#turn(ctx, null)).then(() => undefined);
  }

  /** A run is over. */
  settled(ctx: ExtensionContext): Promise<void> {
    return this.#inLine(ctx, async () => {
      await this.#turn(ctx, null);
      await this.#catchesUp(ctx);
    }).then(() => undefined);
  }

  /** A turn has ended, or the agent is about to settle. */
  boundary(event: TurnEndEvent | AgentBeforeSettleEvent, ctx: ExtensionContext): Promise<BoundaryResult | undefined> {
    return this.#inLine(ctx, async () => {
      if (this.#off) return undefined;
      await this.#doesLater(ctx);
      const none = { drafts: [], warnings: [] };
      const kept = event.type === "turn_end" ? await told(ctx, "copying what tools put beside…", this.#evidence.keep(event, ctx)) : none;
      for (const warning of kept.warnings) this.#tell(ctx, warning, "warning");
      const alone = kept.drafts.length > 0 ? { entries: [...event.entries, ...kept.drafts] } : undefined;
      if (event.type === "turn_end") {
        const failed = event.outcome === "error" && event.message.role === "assistant" && isContextOverflow(event.message, ctx.model?.contextWindow);
        if (failed) this.#refused = event.messageEntryId;
      }
      const again = event.type === "agent_before_settle" && event.outcome === "error" ? this.#refused : undefined;
      const asked = this.#asked && again === undefined;
      const moment: Moment = asked ? "asked" : event.type === "turn_end" ? "turn_end" : again ? "refused" : "settling";
      if (event.type === "agent_before_settle") this.#refused = undefined;
      const plan = await this.#turn(ctx, moment);
      if (!plan) return alone;
      if (plan.message) say(ctx, plan.message, "error");
      if (plan.store) this.#tell(ctx, plan.store, "warning");
      // What another extension edits at the same boundary was not decided upon: it is on the branch at the next one.
      if (meets(event.entries, plan.drafts)) return alone;
      const drafts = await this.#takes(ctx, plan);
      if (asked) {
        this.#asked = false;
        say(ctx, this.#tells(plan, 0));
      }
      if (drafts.length === 0) return alone;
      this.#phase = "handed";
      const continues = again !== undefined && plan.asksAgain === true;
      // Pi itself takes the failed attempt out of the window, unless its compaction is turned off.
      const attempt = continues && !isOmitted(ctx, again) ? [omission(again)] : [];
      return { entries: [...event.entries, ...kept.drafts, ...attempt, ...drafts], ...(continues ? { continue: true } : {}) };
    });
  }

  /** A request is about to leave: the last moment to make room, and where promised edits are shown. */
  request(messages: AgentMessage[], ctx: ExtensionContext): Promise<{ messages: AgentMessage[] } | undefined> {
    return this.#inLine(ctx, async () => {
      await this.#catchesUp(ctx);
      this.#phase = "out";
      const plan = await this.#turn(ctx, "request");
      if (!plan || !this.#fold) return undefined;
      if (plan.drafts.length > 0) {
        const short = await this.#append(plan.drafts, ctx);
        if (short) this.#tell(ctx, short, "warning");
        await this.#turn(ctx, null);
      }
      const asked = plan.request ?? (JSON.parse(await this.#fold.request()) as Request);
      if (asked.stopped !== null) {
        // Who sends it again is told again.
        say(ctx, asked.stopped, "error");
        ctx.abort();
        return undefined;
      }
      if (asked.lost.length > 0) {
        const lost = asked.lost.join(", ");
        this.#tell(ctx, `Promised texts of ${lost} cannot be derived any more; they are shown as they are on the branch`, "warning");
      }
      if (asked.overlay.length === 0) return undefined;
      const laid = layOver(messages, asked.overlay, ctx.sessionManager);
      if (laid.unmatched.length > 0) {
        const gone = laid.unmatched.join(", ");
        this.#tell(ctx, `Another extension took the messages of ${gone} away; what was promised of them is not shown`, "warning");
      }
      return { messages: laid.messages };
    });
  }

  /** Whether Pi's own compaction is held back. */
  holdsBack(reason: "threshold" | "overflow", ctx: ExtensionContext): Promise<boolean> {
    return this.#inLine(ctx, async () => {
      if (!(await this.#turn(ctx, null)) || !this.#fold) return false;
      const lets = JSON.parse(await this.#fold.letsHostCompact(reason === "overflow" ? "refused" : "turn_end")) as boolean;
      if (lets) this.#refused = undefined;
      return !lets;
    }).then((held) => held ?? false);
  }

  /** Whether going to an entry leaves nothing behind but what this extension and Pi note down: nobody means to undo a commit by that. */
  undoesOnlyNotes(target: string, ctx: ExtensionContext): boolean {
    if (!this.#fold) return false;
    const notes = new Set(["custom", "context_edit", "label", "usage", "session_info"]);
    let at = ctx.sessionManager.getLeafEntry();
    let ours = false;
    while (at && at.id !== target) {
      if (!notes.has(at.type)) return false;
      ours ||= at.type === "custom" && at.customType === "pi-fold.commit";
      at = at.parentId ? ctx.sessionManager.getEntry(at.parentId) : undefined;
    }
    return at !== undefined && ours;
  }

  /** A call of the tool: by the agent, whose answers go into the window, or by a person, who reads outside of it. */
  act(call: unknown, ctx: ExtensionContext, by: "agent" | "person" = "agent"): Promise<Reply | undefined> {
    return this.#inLine(ctx, async () => {
      const action = (call as { action?: string } | null)?.action ?? "";
      const reads = action === "peek" || action === "status";
      if (by === "person" && !reads && (this.#phase === "handed" || (this.#phase === "out" && RECORDS.includes(action)))) {
        this.#later.push(call as object);
        return { text: "this is done, or refused, when the turn has ended: an answer is on its way", refused: false, drafts: [] };
      }
      return this.#act(call, ctx, by);
    });
  }

  async #act(call: unknown, ctx: ExtensionContext, by: "agent" | "person"): Promise<Reply | undefined> {
    if (!(await this.#turn(ctx, null)) || !this.#fold) return undefined;
    const status = JSON.parse(await this.#fold.status()) as Status;
    const reads = by === "person" && (call as { action?: string }).action === "peek";
    const room = reads ? ANY : Math.max(0, status.maxTarget - status.occupancy);
    const reply = JSON.parse(await this.#fold.act(JSON.stringify(call), room)) as Reply;
    const short = await this.#append(reply.drafts, ctx);
    await this.#turn(ctx, null);
    if (short) return { text: short, refused: true, drafts: [] };
    return by === "person" ? { ...reply, text: reply.why ?? reply.text } : reply;
  }

  /**
   * A person asks for a commit: where nothing runs its record is appended at once, and the next request shows it; else the turn's end brings it. What
   * the person is told.
   */
  commit(ctx: ExtensionContext): Promise<string> {
    return this.#inLine(ctx, async () => {
      if (this.#phase === undefined) return this.#commit(ctx);
      this.#asked = true;
      return "an answer is on its way; what is marked is folded when its turn has ended";
    }).then((told) => told ?? NONE);
  }

  async #commit(ctx: ExtensionContext): Promise<string> {
    const plan = await this.#turn(ctx, "asked");
    const short = plan && (await this.#append(plan.drafts, ctx));
    await this.#turn(ctx, null);
    return short ? `nothing to fold: ${short}` : this.#tells(plan, await this.#marks());
  }

  async #marks(): Promise<number> {
    return this.#fold ? (JSON.parse(await this.#fold.status()) as Status).marks : 0;
  }

  /** What came of a commit that a person asked for, and how many marks stay, where that is known. */
  #tells(plan: Plan | undefined, marks: number): string {
    if (!plan) return NONE;
    const stay = `${counted(marks, "mark stays", "marks stay")}, which a commit passes over for now (/fold-status marks)`;
    if (plan.kind !== "commit") return `nothing to fold: ${marks > 0 ? stay : (plan.reason ?? "no work is marked")}`;
    const number = (tokens = 0) => tokens.toLocaleString("en-US");
    const left = marks > 0 ? `; ${stay}` : "";
    return `${counted(plan.folds ?? 0, "fold", "folds")}, ${number(plan.before)} to ${number(plan.after)} tokens from the next request on${left}`;
  }

  /** The entries that were handed over are on the branch, or will never be: what a person asked for meanwhile is done. */
  async #catchesUp(ctx: ExtensionContext): Promise<void> {
    await this.#doesLater(ctx);
    if (!this.#asked) return;
    this.#asked = false;
    say(ctx, await this.#commit(ctx));
  }

  /** Calls of a person's that waited. */
  async #doesLater(ctx: ExtensionContext): Promise<void> {
    this.#phase = undefined;
    for (const call of this.#later.splice(0)) {
      const reply = await this.#act(call, ctx, "person");
      say(ctx, reply?.text ?? NONE, reply?.refused === false ? "info" : "warning");
    }
  }

  /** Folds that are shown, with what another extension needs to offer them (see `Candidate`). */
  candidates(ctx: ExtensionContext): Promise<Candidate[]> {
    return this.#inLine(ctx, async () => {
      if (!(await this.#turn(ctx, null)) || !this.#fold) return [];
      return JSON.parse(await this.#fold.candidates()) as Candidate[];
    }).then((candidates) => candidates ?? []);
  }

  /** How the window stands. */
  status(ctx: ExtensionContext): Promise<Status | undefined> {
    return this.#inLine(ctx, async () => {
      if (!(await this.#turn(ctx, null)) || !this.#fold) return undefined;
      return JSON.parse(await this.#fold.status()) as Status;
    });
  }

  /** The window row by row, or what a fold holds; `undefined` where there is no such fold any more, or nothing is folded. */
  map(inside: string | undefined, ctx: ExtensionContext): Promise<Row[] | undefined> {
    return this.#inLine(ctx, async () => {
      if (!(await this.#turn(ctx, null)) || !this.#fold) return undefined;
      return (JSON.parse(await this.#fold.map(inside ?? null)) as Row[] | null) ?? undefined;
    });
  }

  /** Originals as a person reads them. */
  read(ids: readonly string[], offset: number, bytes: number, ctx: ExtensionContext): Promise<Reading | undefined> {
    return this.#inLine(ctx, async () => {
      if (!(await this.#turn(ctx, null)) || !this.#fold) return undefined;
      return JSON.parse(await this.#fold.read(ids, offset, bytes)) as Reading;
    });
  }

  /** What the next request shows of these entries: the branch, with what is promised laid over it. */
  shown(ids: readonly string[], ctx: ExtensionContext): Promise<AgentMessage[]> {
    return this.#inLine(ctx, async () => {
      if (!(await this.#turn(ctx, null)) || !this.#fold) return [];
      const asked = JSON.parse(await this.#fold.request()) as Request;
      const wanted = new Set(ids);
      const all = ctx.sessionManager.buildSessionProjection().entries.flatMap(({ messages }) => messages);
      const { messages, sources } = layOver(all, asked.overlay, ctx.sessionManager);
      return messages.filter((_, at) => wanted.has(sources[at] ?? ""));
    }).then((messages) => messages ?? []);
  }

  /** The options in force, whole; and whether they come from code, where no dialog can change them. */
  async options(): Promise<{ text: string; given: boolean }> {
    return { text: await this.#native.wholeSettings(this.#settings), given: this.#given !== undefined };
  }

  /**
   * Puts one option in force and keeps it for later sessions, beside what the file says of the others by now: another process may have changed them.
   * The options as they are then; why not, if it is refused.
   */
  configure(path: string, value: unknown, ctx: ExtensionContext): Promise<{ options?: Options; said?: string } | undefined> {
    return this.#inLine(ctx, async () => {
      // A file that is wrong is somebody's work all the same.
      const file = await readSettings(this.#native, undefined);
      if (file.refused.length > 0) return { said: `nothing is saved over a file that is refused: ${file.refused.join("; ")}` };
      const options = set(JSON.parse(await this.#native.wholeSettings(file.text)) as Options, path, value);
      const text = JSON.stringify(options);
      const refused = JSON.parse(await this.#native.refusedSettings(text)) as [line: number, why: string][];
      if (refused.length > 0) return { said: refused.map(([, why]) => why).join("; ") };
      try {
        await this.#fold?.configure(text, this.#window);
      } catch (error) {
        return { said: (error as Error).message };
      }
      this.#settings = text;
      await this.#colours(ctx);
      try {
        saveSettings(`${JSON.stringify(options, null, 2)}\n`);
      } catch (error) {
        return { options, said: `in force for this session, but not saved: ${(error as Error).message}` };
      }
      return { options };
    });
  }

  async #colours(ctx: ExtensionContext): Promise<void> {
    if (ctx.mode !== "tui") return;
    this.screen.recolour(JSON.parse(await this.#native.shadesOf(this.#settings, ctx.ui.theme.appearance !== "light")) as Shade[]);
  }

  async #open(ctx: ExtensionContext): Promise<void> {
    if (this.#off) return;
    const { text, refused } = await readSettings(this.#native, this.#given);
    for (const why of refused) this.#tell(ctx, `${why}. The options in force are the defaults`, "warning");
    this.#settings = text;
    await this.#colours(ctx);
    this.#window = ctx.model?.contextWindow ?? 0;
    this.#fold = undefined;
    [this.#proposed, this.#dropped, this.#refused] = [undefined, false, undefined];
    // Without a model there is no budget; the first one that is chosen opens the session.
    if (this.#window === 0) return;
    // In a process of its own memory is the file; later it need not be.
    const file = ctx.sessionManager.getSessionFile();
    const isKnown = this.#read === file && file !== undefined;
    const branch = isKnown ? asWritten(ctx.sessionManager.getBranch(), file) : ctx.sessionManager.getBranch();
    this.#read = file;
    const store = file ? join(dirname(file), "pi-fold.sqlite") : null;
    this.#leaf = ctx.sessionManager.getLeafId();
    const entries = branch.length.toLocaleString("en-US");
    this.#fold = await told(ctx, `reading ${entries} entries…`, this.#native.Fold.open(lines(branch), text, this.#window, store));
    await this.#warns(ctx);
  }

  /** Pi asks by its own threshold, and says each time that it was held back: where that comes first, a person is told how it is silenced. */
  async #warns(ctx: ExtensionContext): Promise<void> {
    const { compaction } = this.#pi.getSettings();
    if (ctx.mode !== "tui" || !this.#fold || compaction?.enabled === false) return;
    const { maxTarget } = JSON.parse(await this.#fold.gauge()) as Gauge;
    if (this.#window - (compaction?.reserveTokens ?? PI_RESERVE) >= maxTarget) return;
    const words = `with ${this.#window.toLocaleString("en-US")} tokens Pi's own threshold comes before the commit. Its compaction is held back, and it says so each time`;
    this.#tell(ctx, `${words}; a smaller compaction.reserveTokens in Pi's settings silences that`, "info");
  }

  /** Hands over what is new and asks what is to be appended; `undefined` where nothing is folded. */
  async #turn(ctx: ExtensionContext, moment: Moment | null): Promise<Plan | undefined> {
    const window = ctx.model?.contextWindow ?? 0;
    const news = this.#fold ? grown(ctx.sessionManager, this.#leaf) : undefined;
    if (!this.#fold || !news) {
      await this.#open(ctx);
    } else if (window !== this.#window && window > 0) {
      // A window that is too small to fold in is no error of ours: what was promised is shown all the same.
      try {
        await this.#fold.configure(this.#settings, window);
      } catch (error) {
        this.#tell(ctx, `${(error as Error).message}; the budget stays what it was with the model before`, "warning");
      }
      this.#window = window;
    }
    if (!this.#fold) return undefined;
    const fresh = news ?? [];
    this.#looksFor(fresh);
    this.#leaf = ctx.sessionManager.getLeafId();
    const came = lines(fresh);
    const now = this.#fold.turnNow(came, moment);
    const plan = now === null ? null : (JSON.parse(now) as Plan | null);
    if (plan) return plan;
    return JSON.parse(await told(ctx, "folding…", this.#fold.turn(now === null ? came : Buffer.alloc(0), moment))) as Plan;
  }

  /** Whether the last boundary of ours came onto the branch: another extension can drop it, and nothing tells. */
  #looksFor(fresh: readonly SessionEntry[]): void {
    if (this.#proposed === undefined) return;
    const seen = fresh.some((entry) => signature(entry) === this.#proposed);
    this.#dropped = !seen;
    this.#proposed = undefined;
  }

  /** The drafts of a plan that go through the boundary. After a dropped one, records are appended by themselves, which nobody can drop. */
  async #takes(ctx: ExtensionContext, plan: Plan): Promise<SessionBoundaryDraft[]> {
    let drafts = plan.drafts;
    if (drafts.length === 0) return [];
    const short = await this.#lacksRoom(ctx, drafts);
    if (short) {
      this.#tell(ctx, short, "warning");
      return [];
    }
    if (this.#dropped && plan.records) {
      await this.#append(drafts.slice(0, plan.records), ctx);
      this.#tell(ctx, "Another extension dropped the entries of the last commit. Its record is appended by itself; the edits follow", "warning");
      await this.#turn(ctx, null);
      return [];
    }
    this.#proposed = signature(drafts[0]!);
    return drafts as SessionBoundaryDraft[];
  }

  /** Why nothing is to be appended now, where there is too little space for it. */
  async #lacksRoom(ctx: ExtensionContext, drafts: readonly Draft[]): Promise<string | undefined> {
    const file = ctx.sessionManager.getSessionFile();
    if (!file || drafts.length === 0) return undefined;
    const bytes = Buffer.byteLength(JSON.stringify(drafts));
    try {
      const disk = await statfs(dirname(file));
      const free = disk.bavail * disk.bsize;
      if (free >= ROOM + 10 * bytes) return undefined;
      // No number: it would be another one at each boundary, and be told each time.
      return `Nothing is folded now: ${dirname(file)} has too little space left, and a line cut off by a full disk can orphan the session. Free some`;
    } catch {
      return undefined;
    }
  }

  /** Appends records and decisions by themselves; why none of them, where there is no room. */
  async #append(drafts: readonly Draft[], ctx: ExtensionContext): Promise<string | undefined> {
    const short = await this.#lacksRoom(ctx, drafts);
    if (short) return short;
    for (const draft of drafts) {
      if (draft.type === "custom") this.#pi.appendEntry(draft.customType, draft.data);
    }
    return undefined;
  }

  /** What goes on is told once. Where the session was replaced meanwhile there is nobody to tell. */
  #tell(ctx: ExtensionContext, words: string, level: "info" | "warning" | "error"): void {
    if (this.#told.has(words)) return;
    if (this.#held) {
      this.#held.push([words, level]);
      return;
    }
    try {
      say(ctx, words, level);
      this.#told.add(words);
    } catch {
      // The next one is told.
    }
  }

  async #redraw(ctx: ExtensionContext): Promise<void> {
    if (ctx.mode !== "tui") return;
    this.screen.update(this.#fold ? (JSON.parse(await this.#fold.gauge()) as Gauge) : undefined);
  }

  /** One thing after another; an error leaves the window as it is, suspends folding, and is told once. */
  #inLine<T>(ctx: ExtensionContext, work: () => Promise<T>): Promise<T | undefined> {
    const done = this.#line.then(work).catch(async (error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      let told: string | null = null;
      try {
        told = this.#fold ? (JSON.parse(await this.#fold.suspend(why)) as string | null) : null;
      } catch {
        this.#fold = undefined;
      }
      this.#tell(ctx, told ?? why, "error");
      return undefined;
    });
    // Nobody waits for the row to be drawn but who comes next.
    this.#line = done.then(() => this.#redraw(ctx)).catch(() => undefined);
    return done;
  }
}

/** Waits for work off the main thread; where there is a screen and it takes long, says so until it is done. */
async function told<T>(ctx: ExtensionContext, words: string, work: Promise<T>): Promise<T> {
  if (!ctx.hasUI) return work;
  let shown = false;
  // A session that was replaced meanwhile has no screen any more, and an error in a timer would end Pi.
  const status = (text: string | undefined) => {
    try {
      ctx.ui.setStatus("pi-fold.progress", text);
      shown = true;
    } catch {
      shown = false;
    }
  };
  const timer = setTimeout(() => status(`pi-fold: ${words}`), LONG);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
    if (shown) status(undefined);
  }
}

/** Whether drafts of others edit what ours edit or promise to. */
function meets(theirs: readonly SessionBoundaryDraft[], ours: readonly Draft[]): boolean {
  const targets = new Set(theirs.flatMap((draft) => (draft.type === "context_edit" ? [draft.targetId] : [])));
  const promised = (data: unknown) => (data as { edits?: { target?: string }[] } | undefined)?.edits ?? [];
  const edits = (draft: Draft) => (draft.type === "context_edit" ? [draft.targetId] : draft.type === "custom" ? promised(draft.data).map(({ target }) => target ?? "") : []);
  return targets.size > 0 && ours.flatMap(edits).some((target) => targets.has(target));
}

/** What tells an entry of ours from others: everything Pi does not fill in. */
function signature(entry: SessionEntry | Draft): string {
  switch (entry.type) {
    case "custom":
      return JSON.stringify(["custom", entry.customType, entry.data]);
    case "context_edit":
      return JSON.stringify(["edit", entry.targetId, entry.replacement]);
    case "custom_message":
      return JSON.stringify(["message", entry.customType, entry.content]);
    default:
      return "";
  }
}

function omission(target: string): SessionBoundaryDraft {
  return { type: "context_edit", targetId: target, replacement: null };
}

/** Whether Pi has taken a failed attempt out of the window already. */
function isOmitted(ctx: ExtensionContext, attempt: string): boolean {
  let at = ctx.sessionManager.getLeafEntry();
  while (at && at.id !== attempt) {
    if (at.type === "context_edit" && at.targetId === attempt && at.replacement === null) return true;
    at = at.parentId ? ctx.sessionManager.getEntry(at.parentId) : undefined;
  }
  return false;
}
