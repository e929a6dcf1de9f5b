// pi-fold as an extension of Pi.

import { Folding } from "./folding.ts";
import { load, type Native } from "./native.ts";
import type { ExtensionAPI, ExtensionContext } from "./pi.ts";

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

const DESCRIPTION =
  "Your context window is folded: stale spans are replaced by short briefs, and every original is kept. Peek gives originals back as text; status tells what is folded and what will be; expand shows a fold's originals in their place again, refold hides them; pin keeps work raw, unpin ends that; brief, reboundary and unmark say how pending work is to be folded.";

/** Registers pi-fold. `options` win over the settings file. */
export function registerPiFold(pi: ExtensionAPI, options?: object): void {
  let native: Native;
  try {
    native = load();
  } catch (error) {
    tellOnce(pi, (error as Error).message);
    return;
  }
  const folding = new Folding(pi, native, options);

  pi.on("session_start", async (_event, ctx) => {
    if (!process.listeners("SIGXFSZ").includes(stays)) process.on("SIGXFSZ", stays);
    if (typeof ctx.sessionManager.buildSessionProjection !== "function") {
      folding.never();
      tell(ctx, "this Pi is too old: pi-fold needs 0.87 or later, and folds nothing now");
      return;
    }
    await folding.open(ctx);
  });
  pi.on("session_tree", (_event, ctx) => folding.open(ctx));
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
    description: DESCRIPTION,
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
    async handler(_arguments, ctx) {
      const plan = await folding.commit(ctx);
      if (!plan) return tell(ctx, "nothing is folded in this session now");
      if (plan.kind !== "commit") return tell(ctx, `nothing to fold: ${plan.reason ?? "no work is marked"}`);
      tell(ctx, `${plan.folds} folds, ${plan.before} to ${plan.after} tokens from the next request on`);
    },
  });
  pi.registerCommand("fold-status", {
    description: "How the window stands: budget, folds, marks, pins",
    async handler(_arguments, ctx) {
      const reply = await folding.act({ action: "status" }, ctx);
      tell(ctx, reply?.text ?? "nothing is folded in this session now");
    },
  });
}

/**
 * A store that meets a file-size limit is a warning. Node ignores the signal of it, but a library in Pi ends the process for every signal that
 * nobody else listens to.
 */
function stays(): void {}

function tell(ctx: ExtensionContext, words: string): void {
  if (ctx.hasUI) ctx.ui.notify(`pi-fold: ${words}`, "info");
  else process.stderr.write(`pi-fold: ${words}\n`);
}

function tellOnce(pi: ExtensionAPI, words: string): void {
  pi.on("session_start", (_event, ctx) => tell(ctx, words));
}

export default function piFold(pi: ExtensionAPI): void {
  registerPiFold(pi);
}
