import { blank, duplicates, listed, object, signed } from "./words.mjs";

/** Anthropic Messages. */
export const messages = {
  api: "anthropic-messages",
  model: "messages-mock",
  base: "",
  path: /^\/v1\/messages(\?beta=true)?$/,
  // Where a breakpoint stands is no part of what is cached, and a text is cached as the one block that it is.
  prompt(body) {
    const plain = (message) => ({
      ...message,
      content: typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content,
    });
    const text = JSON.stringify([body.tools, body.system, body.messages.map(plain)], (key, value) => (key === "cache_control" ? undefined : value));
    return JSON.parse(text);
  },
  thinks: (body) => ["enabled", "adaptive"].includes(body.thinking?.type),

  refuses(body) {
    const list = body.messages;
    if (!Array.isArray(list) || list.length === 0) return "messages: at least one message is required";
    const blocks = (message) => (typeof message?.content === "string" ? [{ type: "text", text: message.content }] : (message?.content ?? []));
    const of = (message, type) => blocks(message).filter((block) => block.type === type);
    for (const [at, message] of list.entries()) {
      if (!["user", "assistant"].includes(message.role))
        return `messages: Unexpected role "${message.role}". The Messages API accepts a top-level \`system\` parameter.`;
      if (blocks(message).length === 0)
        return `messages.${at}: all messages must have non-empty content except for the optional final assistant message`;
      for (const [number, block] of blocks(message).entries()) {
        const where = `messages.${at}.content.${number}`;
        if (block.type === "text" && block.text === "") return "messages: text content blocks must be non-empty";
        if (block.type === "text" && blank(block.text)) return "messages: text content blocks must contain non-whitespace text";
        if (block.type === "thinking" && block.signature !== signed(block.thinking ?? ""))
          return `${where}: Invalid \`signature\` in \`thinking\` block`;
        if (block.type === "tool_use" && !/^[a-zA-Z0-9_-]+$/.test(block.id ?? ""))
          return `${where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`;
        if (block.type === "tool_use" && !object(block.input)) return `${where}.tool_use.input: Input should be a valid dictionary`;
        if (block.type === "tool_result" && blank(block.tool_use_id)) return `${where}.tool_result.tool_use_id: Field required`;
        if (block.type === "tool_result" && Array.isArray(block.content) && block.content.some((part) => part.type === "text" && blank(part.text)))
          return "messages: text content blocks must be non-empty";
        const only = { thinking: "assistant", redacted_thinking: "assistant", tool_use: "assistant", tool_result: "user" }[block.type];
        if (only && only !== message.role) return `messages.${at}: \`${block.type}\` blocks can only be in \`${only}\` messages`;
      }
    }
    if (list[0].role !== "user") return 'messages: first message must use the "user" role';
    const twice = duplicates(list.flatMap((message) => of(message, "tool_use").map((block) => block.id)));
    if (twice.length > 0) return "messages: `tool_use` ids must be unique";
    for (const [at, message] of list.entries()) {
      const called = of(message, "tool_use").map((block) => block.id);
      const next = list[at + 1];
      // Results stand first in the message that answers.
      const first = blocks(next).findIndex((block) => block.type !== "tool_result");
      const results = (next?.role === "user" ? blocks(next).slice(0, first < 0 ? undefined : first) : []).map((block) => block.tool_use_id);
      const open = called.filter((id) => !results.includes(id));
      if (open.length > 0) return `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${listed(open)}.`;
      const given = of(message, "tool_result").map((block) => block.tool_use_id);
      const before = of(list[at - 1], "tool_use").map((block) => block.id);
      const orphan = given.findIndex((id) => !before.includes(id));
      if (orphan >= 0) return `messages.${at}.content.${orphan}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${given[orphan]}.`;
      const again = duplicates(given);
      if (again.length > 0)
        return `messages.${at}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${again[0]}`;
    }
    if (list.at(-1).role !== "user") return "This model does not support assistant message prefill. The conversation must end with a user message.";
    // In an open tool loop the last answer has to begin with its thinking; answers in a row count as one.
    if (this.thinks(body) && of(list.at(-1), "tool_result").length > 0) {
      let at = list.length - 2;
      while (list[at - 1]?.role === "assistant") at -= 1;
      const found = blocks(list[at])[0].type;
      if (!["thinking", "redacted_thinking"].includes(found))
        return `messages.${at}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${found}\`.`;
    }
    return undefined;
  },

  error: (message, type = "invalid_request_error") => ({ type: "error", error: { type, message }, request_id: "req_1" }),
  overflow(used, window) {
    return [400, this.error(`prompt is too long: ${used} tokens > ${window} maximum`)];
  },
  limited() {
    return [429, this.error("This request would exceed your organization's rate limit", "rate_limit_error")];
  },

  events({ id, thinking, text, calls, usage }) {
    const event = (type, rest = {}) => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
    const blocks = [];
    if (thinking)
      blocks.push([
        { type: "thinking", thinking: "", signature: "" },
        { type: "thinking_delta", thinking },
        { type: "signature_delta", signature: signed(thinking) },
      ]);
    if (text)
      blocks.push([
        { type: "text", text: "" },
        { type: "text_delta", text },
      ]);
    for (const [number, { name, args }] of calls.entries()) {
      blocks.push([
        { type: "tool_use", id: `toolu_${id}_${number}`, name, input: {} },
        { type: "input_json_delta", partial_json: JSON.stringify(args) },
      ]);
    }
    const tokens = { input_tokens: usage.prompt - usage.cached, cache_read_input_tokens: usage.cached, cache_creation_input_tokens: 0 };
    return [
      event("message_start", {
        message: {
          id: `msg_${id}`,
          type: "message",
          role: "assistant",
          model: this.model,
          content: [],
          stop_reason: null,
          usage: { ...tokens, output_tokens: 1 },
        },
      }),
      ...blocks.flatMap(([content_block, ...deltas], index) => [
        event("content_block_start", { index, content_block }),
        ...deltas.map((delta) => event("content_block_delta", { index, delta })),
        event("content_block_stop", { index }),
      ]),
      event("message_delta", {
        delta: { stop_reason: calls.length > 0 ? "tool_use" : "end_turn", stop_sequence: null },
        usage: { ...tokens, output_tokens: usage.answer },
      }),
      event("message_stop"),
    ];
  },
};
