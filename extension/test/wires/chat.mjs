import { blank, duplicates, listed, noContent, object } from "./words.mjs";

/** OpenAI Chat Completions. */
export const chat = {
  api: "openai-completions",
  model: "chat-mock",
  base: "/v1",
  path: /^\/v1\/chat\/completions$/,
  prompt: (body) => [body.tools, body.messages],
  thinks: (body) => body.reasoning_effort !== undefined,

  refuses({ messages }) {
    if (!Array.isArray(messages) || messages.length === 0) return "Invalid 'messages': empty array. Expected an array with minimum length 1.";
    const roles = ["system", "developer", "user", "assistant", "tool"];
    let open = [];
    for (const [at, message] of messages.entries()) {
      const where = `messages[${at}]`;
      if (!roles.includes(message.role))
        return `Invalid value: '${message.role}'. Supported values are: ${roles.map((role) => `'${role}'`).join(", ")}.`;
      if (message.role === "tool") {
        if (!message.tool_call_id) return `Missing required parameter: '${where}.tool_call_id'.`;
        if (!open.includes(message.tool_call_id))
          return "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
        open = open.filter((id) => id !== message.tool_call_id);
      } else if (open.length > 0) {
        return unanswered(open);
      }
      const calls = message.tool_calls ?? [];
      if (message.role === "assistant" && message.tool_calls && calls.length === 0)
        return `Invalid '${where}.tool_calls': empty array. Expected an array with minimum length 1.`;
      for (const [number, call] of calls.entries()) {
        if (blank(call.id)) return `Missing required parameter: '${where}.tool_calls[${number}].id'.`;
        if (call.id.length > 40) return `Invalid '${where}.tool_calls[${number}].id': string too long. Expected a string with maximum length 40.`;
        if (blank(call.function?.name)) return `Missing required parameter: '${where}.tool_calls[${number}].function.name'.`;
        if (typeof call.function.arguments !== "string")
          return `Invalid type for '${where}.tool_calls[${number}].function.arguments': expected a string.`;
      }
      if (calls.length === 0) {
        const empty = noContent(message.content, where);
        if (empty) return empty;
      }
      const twice = duplicates(calls.map((call) => call.id));
      if (twice.length > 0) return `Duplicate value for 'tool_call_id' of ${twice[0]} in ${where}.`;
      open = calls.length > 0 ? calls.map((call) => call.id) : open;
    }
    return open.length > 0 ? unanswered(open) : undefined;

    function unanswered(ids) {
      const rule = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'";
      return `${rule}. The following tool_call_ids did not have response messages: ${listed(ids)}`;
    }
  },

  error: (message, code = null, type = "invalid_request_error") => ({ error: { message, type, param: null, code } }),
  overflow(used, window) {
    const words = `This model's maximum context length is ${window} tokens. However, your messages resulted in ${used} tokens.`;
    return [400, this.error(words, "context_length_exceeded")];
  },
  limited() {
    return [429, this.error("Rate limit reached for requests", "rate_limit_exceeded", "requests")];
  },

  events({ id, thinking, text, calls, usage }) {
    const chunk = (rest) =>
      `data: ${JSON.stringify({ id: `chatcmpl-${id}`, object: "chat.completion.chunk", created: 1, model: this.model, ...rest })}\n\n`;
    const delta = (change, finish_reason = null) => chunk({ choices: [{ index: 0, delta: change, finish_reason }] });
    const call = ({ name, args }, index) => [
      delta({ tool_calls: [{ index, id: `call_${id}_${index}`, type: "function", function: { name, arguments: "" } }] }),
      delta({ tool_calls: [{ index, function: { arguments: JSON.stringify(args) } }] }),
    ];
    return [
      delta({ role: "assistant", content: "" }),
      ...(thinking ? [delta({ reasoning_content: thinking })] : []),
      ...(text ? [delta({ content: text })] : []),
      ...calls.flatMap(call),
      delta({}, calls.length > 0 ? "tool_calls" : "stop"),
      chunk({
        choices: [],
        usage: {
          prompt_tokens: usage.prompt,
          completion_tokens: usage.answer,
          total_tokens: usage.prompt + usage.answer,
          prompt_tokens_details: { cached_tokens: usage.cached },
        },
      }),
      "data: [DONE]\n\n",
    ];
  },
};
