// Entries and messages in words, for a person's screen.

import { stripTerminalSequences } from "@earendil-works/pi-tui";
import type { AgentMessage, ExtensionContext, SessionEntry } from "./pi.ts";

type Block = { type: string; text?: string; thinking?: string; name?: string; arguments?: unknown; mimeType?: string };

function blocks(content: unknown): Block[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? (content as Block[]) : [];
}

function words(block: Block): string {
  switch (block.type) {
    case "text":
      return block.text ?? "";
    case "thinking":
      return `(thinking) ${block.thinking ?? ""}`;
    case "toolCall":
      return `${block.name}(${JSON.stringify(block.arguments ?? {})})`;
    case "image":
      return `(image, ${block.mimeType ?? "of an unknown type"})`;
    default:
      return `(${block.type})`;
  }
}

/** What an entry is about: who speaks, and the beginning of it. */
export function gist(entry: SessionEntry | undefined): string {
  if (!entry) return "";
  type Any = { role?: string; content?: unknown; command?: string; summary?: string };
  const of: Any = entry.type === "message" ? (entry.message as Any) : (entry as Any);
  const said = blocks(of.content ?? of.command ?? of.summary).filter((block) => block.type !== "thinking");
  const call = said.find((block) => block.type === "toolCall");
  const text = words(call ?? said[0] ?? { type: "text", text: "" });
  return `${of.role ?? entry.type}: ${text.slice(0, 300)}`;
}

/** Messages as text, each below a line that says whose it is. */
export function written(messages: readonly AgentMessage[]): string {
  const one = (message: AgentMessage) => {
    const of = message as { role: string; content?: unknown; toolName?: string };
    return [`── ${of.role}${of.toolName ? ` ${of.toolName}` : ""}`, ...blocks(of.content).map(words)].join("\n");
  };
  return messages.length === 0 ? "Nothing: it is hidden." : messages.map(one).join("\n");
}

/** A number and its noun. */
export const counted = (count: number, one: string, more: string): string => `${count.toLocaleString("en-US")} ${count === 1 ? one : more}`;

/** Tells a person, on the screen or beside what is printed. Paths and names are in it, and these can hold anything. */
export function say(ctx: ExtensionContext, words: string, level: "info" | "warning" | "error" = "info"): void {
  const text = `pi-fold: ${printable(words)}`;
  if (ctx.hasUI) ctx.ui.notify(text, level);
  else process.stderr.write(`${text}\n`);
}

/** Text that does nothing to a screen but stand on it: no colours, no cursor, no tabs whose width nobody knows; lines stay lines. */
export function printable(text: string): string {
  const plain = stripTerminalSequences(text).replaceAll("\t", "    ").replaceAll("\r\n", "\n");
  return plain.toWellFormed().replaceAll(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}
