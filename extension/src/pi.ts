// What of Pi this extension uses, by its names.

export type {
  ExtensionAPI,
  ExtensionContext,
  ExtensionCommandContext,
  SessionBoundaryDraft,
  SessionEntry,
  TurnEndEvent,
  AgentBeforeSettleEvent,
  BoundaryResult,
  KeybindingsManager,
  Theme,
} from "@earendil-works/pi-coding-agent";

import type { ExtensionContext, ContextWithSystemEvent } from "@earendil-works/pi-coding-agent";

export type ReadonlySessionManager = ExtensionContext["sessionManager"];
export type AgentMessage = ContextWithSystemEvent["messages"][number];
