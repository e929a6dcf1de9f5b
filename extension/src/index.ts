// pi-fold as an extension of Pi.

import { paintFor } from "./bar.ts";
import { type Asked, Editor, type Left, type Place, READ_BYTES } from "./editor.ts";
import { Folding, NONE } from "./folding.ts";
import { type Candidate, load, type Native } from "./native.ts";
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "./pi.ts";
import { settingsPath } from "./settings.ts";
import { type Apply, type Options, SettingsDialog } from "./settings-dialog.ts";
import { gist, say, written } from "./words.ts";

/** What /fold-status lists. */
const LISTS = ["tree", "folds", "marks"];

const ACTIONS = ["peek", "status", "expand", "refold", "pin", "unpin", "brief", "reboundary", "unmark"];

/** What the model is told of the tool. Every field but `action` belongs to some of the actions; what does not belong is refused by name. */
const PARAMETERS = {
  type: "object",
  required: ["action"],
  properties: {
    action: { type: "string", enum: ACTIONS },
    id: { type: "string", description: "A fold or an entry: for peek, expand, refold, brief, reboundary" },
    ids: { type: "array", items: { type: "string" }, description: "For pin, unpin, unmark" },
    text: { type: "string", description: "For brief: what the fold will say" },
    at: { type: "array", items: { type: "string" }, description: "For reboundary: the units at which a new cut begins" },
    offset: { type: "integer", minimum: 0, description: "For peek: the first byte" },
    bytes: { type: "integer", minimum: 1, description: "For peek: how many" },
    ephemeral: { type: "boolean", description: "For peek: false keeps the answer in the window" },
    detail: { type: "string", enum: ["none", "tree", "folds", "marks"], description: "For status" },
    page: { type: "integer", minimum: 1, description: "For status" },
  },
};

/** Registers pi-fold. `options` win over the settings file. What is shown folded is offered to other extensions by `projectionCandidates`. */
export function registerPiFold(pi: ExtensionAPI, options?: object | null): { projectionCandidates: (ctx: ExtensionContext) => Promise<Candidate[]> } {
  let native: Native;
  try {
    native = load();
  } catch (error) {
    tellOnce(pi, (error as Error).message);
    return { projectionCandidates: async () => [] };
  }
  const folding = new Folding(pi, native, options);

  pi.on("session_start", async (_event, ctx) => {
    stays();
    if (typeof ctx.sessionManager.buildSessionProjection !== "function") {
      folding.never();
      say(ctx, "this Pi is too old: pi-fold needs 0.87 or later, and folds nothing now");
      return;
    }
    await folding.open(ctx);
  });
  pi.on("session_tree", (_event, ctx) => folding.open(ctx));
  pi.on("agent_settled", (_event, ctx) => folding.settled(ctx));
  pi.on("model_select", (_event, ctx) => folding.takesIn(ctx));
  pi.on("turn_end", (event, ctx) => folding.boundary(event, ctx));
  pi.on("agent_before_settle", (event, ctx) => folding.boundary(event, ctx));
  pi.on("context_with_system", (event, ctx) => folding.request(event.messages, ctx));
  pi.on("session_before_compact", async (event, ctx) => {
    if (event.reason === "manual" || !folding.on) return undefined;
    return (await folding.holdsBack(event.reason, ctx)) ? { cancel: true } : undefined;
  });
  pi.on("session_before_tree", (event, ctx) => (folding.undoesOnlyNotes(event.preparation.targetId, ctx) ? { cancel: true } : undefined));

  pi.registerTool({
    name: "pi_fold_context",
    label: "context",
    description: native.toolDescription(),
    parameters: PARAMETERS as never,
    executionMode: "sequential",
    async execute(_id: string, call: unknown, _signal: unknown, _update: unknown, ctx: ExtensionContext) {
      const reply = await folding.act(call, ctx);
      const text = reply?.text ?? "Nothing is folded in this session now, so there is nothing to look at";
      return { content: [{ type: "text" as const, text }], details: undefined, isError: reply?.refused ?? true };
    },
  });

  pi.registerCommand("fold", {
    description: "Fold everything that is marked, now",
    handler: async (_arguments, ctx) => say(ctx, await folding.commit(ctx)),
  });
  pi.registerCommand("fold-status", {
    description: "How the window stands: budget, folds, marks, pins, rewrites; with tree, folds or marks, and a page: these",
    async handler(words, ctx) {
      const [detail, page = "1", ...more] = words.trim().split(/\s+/).filter(Boolean);
      if ((detail !== undefined && !LISTS.includes(detail)) || !/^[1-9]\d{0,8}$/.test(page) || more.length > 0) {
        return say(ctx, `/fold-status takes nothing, or ${LISTS.join(", ")} and a page: /fold-status tree 2`, "warning");
      }
      const reply = await folding.act({ action: "status", ...(detail ? { detail } : {}), page: Number(page) }, ctx, "person");
      const status = detail ? undefined : await folding.status(ctx);
      const copies = status ? `\nsecond copies: ${status.copies}` : "";
      say(ctx, reply ? `${personal(reply.text, detail)}${copies}` : NONE);
    },
  });
  pi.registerCommand("fold-editor", {
    description: "The window as a map: read originals, expand, refold, re-cut, pin, unmark, re-brief",
    handler: (_arguments, ctx) => edit(folding, ctx),
  });
  pi.registerCommand("fold-settings", {
    description: "The options of folding, and the colours of its bar",
    handler: (_arguments, ctx) => choose(folding, ctx),
  });
  return { projectionCandidates: (ctx) => folding.candidates(ctx) };
}

/** A page as a person reads it: without the lines that tell an agent which page it is and how to call for the next. */
function personal(page: string, detail: string | undefined): string {
  const pages = /^⟦pi-fold status · \w+ · page (\d+) of (\d+)⟧\n/.exec(page);
  if (!pages) return page;
  const [head, at, of] = pages;
  const text = page.slice(head.length).replace(/\n⟦go on: [^\n]*⟧$/, "").replace(" (read only)", " (/fold-settings)");
  const next = Number(at) < Number(of) ? `\nfurther: /fold-status ${detail} ${Number(at) + 1}` : "";
  return of === "1" ? text : `${detail}, page ${at} of ${of}\n${text}${next}`;
}

/** The map, until it is left for good; a brief is written in Pi's own editor in between. */
async function edit(folding: Folding, ctx: ExtensionCommandContext): Promise<void> {
  if (ctx.mode !== "tui") return say(ctx, "/fold-editor needs an interactive screen; /fold-status tree lists the folds");
  const place: Place = { at: 0, open: new Set(), said: "" };
  const asked: Asked = {
    gauge: async () => folding.screen.gauge,
    map: (inside) => folding.map(inside, ctx),
    act: (call) => folding.act(call, ctx, "person"),
    read: (ids, offset) => folding.read(ids, offset, READ_BYTES, ctx),
    seen: async (ids) => written(await folding.shown(ids, ctx)),
    gist: (id) => gist(ctx.sessionManager.getEntry(id)),
  };
  // What was written and refused is not to be written again from the beginning.
  const refused = new Map<string, string>();
  for (;;) {
    const left = await ctx.ui.custom<Left>((tui, theme, keys, done) => {
      const paint = () => paintFor(theme, folding.screen.shades);
      return new Editor(asked, place, tui, theme, keys, paint, done);
    });
    if (!left) return;
    const text = await ctx.ui.editor("What the fold will say", refused.get(left.brief));
    if (text === undefined) continue;
    const reply = await folding.act({ action: "brief", id: left.brief, text }, ctx, "person");
    place.said = reply?.text ?? NONE;
    if (reply?.refused === false) refused.delete(left.brief);
    else refused.set(left.brief, text);
  }
}

async function choose(folding: Folding, ctx: ExtensionCommandContext): Promise<void> {
  if (ctx.mode !== "tui") return say(ctx, `/fold-settings needs an interactive screen; the options are in ${settingsPath()}`);
  const { text, given } = await folding.options();
  if (given) return say(ctx, "the options in code are in force, and are changed there");
  await ctx.ui.custom<void>((tui, theme, keys, done) => {
    const apply: Apply = async (path, value) => (await folding.configure(path, value, ctx)) ?? { said: "an internal error; nothing was changed" };
    return new SettingsDialog(JSON.parse(text) as Options, apply, tui, theme, keys, () => done());
  });
}

/**
 * A store that meets a file-size limit is a warning. Node ignores the signal of it, but a library in Pi ends the process for every signal that
 * nobody else listens to. One listener is enough, however often this file is loaded.
 */
function stays(): void {
  const key = Symbol.for("pi-fold.SIGXFSZ");
  const kept = globalThis as { [key]?: true };
  if (kept[key] && process.listenerCount("SIGXFSZ") > 0) return;
  kept[key] = true;
  process.on("SIGXFSZ", () => undefined);
}

function tellOnce(pi: ExtensionAPI, words: string): void {
  pi.on("session_start", (_event, ctx) => say(ctx, words));
}

export default function piFold(pi: ExtensionAPI): void {
  registerPiFold(pi);
}
