import { blank, duplicates, noContent, object, signed } from "./words.mjs";

/** OpenAI Responses. */
export const responses = {
  api: "openai-responses",
  model: "responses-mock",
  base: "/v1",
  path: /^\/v1\/responses$/,
  prompt: (body) => [body.tools, body.input],
  thinks: (body) => object(body.reasoning) && (body.reasoning.effort ?? "none") !== "none",

  refuses({ input }) {
    if (!Array.isArray(input) || input.length === 0) return "Invalid 'input': empty array. Expected an array with minimum length 1.";
    const roles = ["assistant", "system", "developer", "user"];
    const prefix = { message: "msg", function_call: "fc", reasoning: "rs" };
    const kind = (item) => item?.type ?? "message";
    const twice = duplicates(input.map((item) => item.id).filter(Boolean));
    if (twice.length > 0) return `Duplicate item found with id ${twice[0]}. Remove duplicate items from your input and try again.`;
    const called = new Set();
    const answered = new Set();
    for (const [at, item] of input.entries()) {
      const where = `input[${at}]`;
      const starts = prefix[kind(item)];
      if (item.id !== undefined && starts && !String(item.id).startsWith(starts))
        return `Invalid '${where}.id': '${item.id}'. Expected an ID that begins with '${starts}'.`;
      // What came right after a piece of reasoning cannot be sent without it, nor it without that.
      const own = /_r(\w+)$/.exec(item.id ?? "")?.[1];
      if (own !== undefined && input[at - 1]?.id !== `rs_${own}`)
        return `Item '${item.id}' of type '${kind(item)}' was provided without its required 'reasoning' item: 'rs_${own}'.`;
      switch (kind(item)) {
        case "message": {
          if (!roles.includes(item.role))
            return `Invalid value: '${item.role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.`;
          const empty = noContent(item.content, where);
          if (empty) return empty;
          break;
        }
        case "reasoning": {
          const next = input[at + 1]?.id ?? "";
          if (![`msg_r${item.id?.slice(3)}`, `fc_r${item.id?.slice(3)}`].includes(next))
            return `Item '${item.id}' of type 'reasoning' was provided without its required following item.`;
          if (item.encrypted_content !== signed(item.id)) return `The encrypted content for item ${item.id} could not be verified.`;
          break;
        }
        case "function_call":
          if (blank(item.call_id)) return `Missing required parameter: '${where}.call_id'.`;
          if (item.call_id.length > 64) return `Invalid '${where}.call_id': string too long. Expected a string with maximum length 64.`;
          if (blank(item.name)) return `Missing required parameter: '${where}.name'.`;
          if (typeof item.arguments !== "string") return `Invalid type for '${where}.arguments': expected a string.`;
          if (called.has(item.call_id)) return `Duplicate function call with call_id ${item.call_id}.`;
          called.add(item.call_id);
          break;
        case "function_call_output":
          if (blank(item.call_id)) return `Missing required parameter: '${where}.call_id'.`;
          if (!called.has(item.call_id)) return `No tool call found for function call output with call_id ${item.call_id}.`;
          if (answered.has(item.call_id)) return `Duplicate function call output with call_id ${item.call_id}.`;
          if (typeof item.output !== "string" && !Array.isArray(item.output)) return `Missing required parameter: '${where}.output'.`;
          if (item.output.length === 0) return `Invalid '${where}.output': empty.`;
          answered.add(item.call_id);
          break;
        default:
          return `Invalid value: '${item.type}'. Supported values are: 'message', 'reasoning', 'function_call', 'function_call_output'.`;
      }
    }
    const open = [...called].filter((id) => !answered.has(id));
    return open.length > 0 ? `No tool output found for function call ${open[0]}.` : undefined;
  },

  error: (message, code = null, type = "invalid_request_error") => ({ error: { message, type, param: "input", code } }),
  overflow() {
    return [
      400,
      this.error("Your input exceeds the context window of this model. Please adjust your input and try again.", "context_length_exceeded"),
    ];
  },
  limited() {
    return [429, this.error("Rate limit reached for requests", "rate_limit_exceeded", "requests")];
  },

  events({ id, thinking, text, calls, usage }) {
    let sequence_number = 0;
    const event = (type, rest) => `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence_number++, ...rest })}\n\n`;
    const items = [];
    // The item after the reasoning bears its number: so is told what belongs together.
    const named = (start, rest) => `${start}_${thinking && items.length === 1 ? `r${id}` : rest}`;
    if (thinking)
      items.push({ type: "reasoning", id: `rs_${id}`, summary: [{ type: "summary_text", text: thinking }], encrypted_content: signed(`rs_${id}`) });
    if (text)
      items.push({
        type: "message",
        id: named("msg", id),
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text, annotations: [] }],
      });
    for (const [number, { name, args }] of calls.entries()) {
      items.push({
        type: "function_call",
        id: named("fc", `${id}_${number}`),
        call_id: `call_${id}_${number}`,
        name,
        arguments: JSON.stringify(args),
        status: "completed",
      });
    }
    const begun = (item) => ({
      ...item,
      ...("summary" in item ? { summary: [] } : {}),
      ...("content" in item ? { content: [] } : {}),
      ...("arguments" in item ? { arguments: "" } : {}),
    });
    const deltas = (item, output_index) => {
      const at = { output_index, item_id: item.id };
      if (item.type === "message") return [event("response.output_text.delta", { ...at, content_index: 0, delta: text })];
      if (item.type === "reasoning") return [event("response.reasoning_summary_text.delta", { ...at, summary_index: 0, delta: thinking })];
      return [event("response.function_call_arguments.delta", { ...at, delta: item.arguments })];
    };
    const response = { id: `resp_${id}`, object: "response", model: this.model };
    return [
      event("response.created", { response: { ...response, status: "in_progress", output: [] } }),
      ...items.flatMap((item, output_index) => [
        event("response.output_item.added", { output_index, item: begun(item) }),
        ...deltas(item, output_index),
        event("response.output_item.done", { output_index, item }),
      ]),
      event("response.completed", {
        response: {
          ...response,
          status: "completed",
          output: items,
          usage: {
            input_tokens: usage.prompt,
            input_tokens_details: { cached_tokens: usage.cached },
            output_tokens: usage.answer,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: usage.prompt + usage.answer,
          },
        },
      }),
    ];
  },
};
