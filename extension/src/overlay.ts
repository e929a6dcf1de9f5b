// Promised edits laid over a request: what a record on the branch says, before its edits are on the branch.

import { sessionEntryToContextMessages } from "@earendil-works/pi-coding-agent";
import type { AgentMessage, ReadonlySessionManager, SessionEntry } from "./pi.ts";

/** What tells one message from another. Two with the same key are told apart by their order. */
function key(message: AgentMessage): string {
  const of = message as { role: string; timestamp?: number; toolCallId?: string };
  return `${of.role} ${of.timestamp ?? ""} ${of.toolCallId ?? ""}`;
}

/** A message with another content; a string in a result or an answer is one text block, as Pi has it. */
function showing(message: AgentMessage, content: unknown): AgentMessage {
  const blocks = message.role === "assistant" || message.role === "toolResult";
  const shown = blocks && typeof content === "string" ? [{ type: "text", text: content }] : content;
  return { ...message, content: shown } as AgentMessage;
}

/** A message of a request, and the entry it comes from where that is known. */
type Shown = { message: AgentMessage; source: string | undefined };

/**
 * The messages of a request with promised contents in their places, the entry each comes from where that is known, and the targets for which
 * there is no place.
 *
 * Messages are found by role, time and call, never by their number: another extension may have added some or taken some away. An entry that
 * the branch omits and that is shown again stands before whatever follows it on the branch.
 */
export function layOver(
  messages: AgentMessage[],
  overlay: readonly [target: string, content: unknown][],
  manager: ReadonlySessionManager,
): { messages: AgentMessage[]; sources: (string | undefined)[]; unmatched: string[] } {
  const wanted = new Map(overlay);
  const unmatched = new Set(wanted.keys());
  // The n-th message with a key stands for the n-th entry with it; what is shown again, before which entry.
  const places = new Map<string, SessionEntry[]>();
  const again = new Map<string, Shown[]>();
  let waiting: Shown[] = [];
  for (const { sourceEntry, messages: shown } of manager.buildSessionProjection().entries) {
    if (shown.length === 0) {
      const content = wanted.get(sourceEntry.id);
      if (content === undefined) continue;
      unmatched.delete(sourceEntry.id);
      if (content === null) continue;
      const own = sessionEntryToContextMessages(sourceEntry);
      waiting.push(...own.map((message) => ({ message: showing(message, content), source: sourceEntry.id })));
      continue;
    }
    for (const message of shown) {
      const at = key(message);
      const same = places.get(at);
      if (same) same.push(sourceEntry);
      else places.set(at, [sourceEntry]);
    }
    again.set(sourceEntry.id, waiting);
    waiting = [];
  }
  const seen = new Map<string, number>();
  const out: Shown[] = [];
  for (const message of messages) {
    const at = key(message);
    const nth = seen.get(at) ?? 0;
    seen.set(at, nth + 1);
    const entry = places.get(at)?.[nth];
    if (entry) {
      out.push(...(again.get(entry.id) ?? []));
      again.delete(entry.id);
    }
    if (!entry || !wanted.has(entry.id)) {
      out.push({ message, source: entry?.id });
      continue;
    }
    unmatched.delete(entry.id);
    const content = wanted.get(entry.id);
    if (content !== null) out.push({ message: showing(message, content), source: entry.id });
  }
  out.push(...waiting);
  const laid = unmatched.size > 0 ? paired(messages, out) : out;
  return { messages: laid.map(({ message }) => message), sources: laid.map(({ source }) => source), unmatched: [...unmatched] };
}

const callsOf = (message: AgentMessage): string[] =>
  message.role === "assistant" ? message.content.flatMap((block) => (block.type === "toolCall" ? [block.id] : [])) : [];
const answered = (message: AgentMessage): string[] => (message.role === "toolResult" ? [message.toolCallId] : []);

/**
 * What is promised of a batch is done to all of it or, where a part was not found because another extension changed it, the rest of it goes too: no
 * provider takes a call without its result.
 */
function paired(before: readonly AgentMessage[], laid: readonly Shown[]): Shown[] {
  const [had, gave] = [new Set(before.flatMap(callsOf)), new Set(before.flatMap(answered))];
  const [has, gives] = [new Set(laid.flatMap(({ message }) => callsOf(message))), new Set(laid.flatMap(({ message }) => answered(message)))];
  return laid.filter(({ message }) => {
    const calls = callsOf(message);
    const isTorn = calls.length > 0 && calls.every((id) => gave.has(id) && !gives.has(id));
    return !isTorn && !answered(message).some((id) => had.has(id) && !has.has(id));
  });
}
