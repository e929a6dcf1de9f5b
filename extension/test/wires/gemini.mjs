import { blank, object, signed } from "./words.mjs";

/** Gemini, as its third generation has it: calls have ids and signed thoughts. */
export const gemini = {
  api: "google-generative-ai",
  model: "gemini-3-flash-mock",
  base: "/v1beta",
  path: /^\/v1beta\/models\/[^:]+:streamGenerateContent\?alt=sse$/,
  prompt: (body) => [body.tools, body.systemInstruction, body.contents],
  thinks: (body) => body.generationConfig?.thinkingConfig?.includeThoughts === true,

  refuses({ contents }) {
    if (!Array.isArray(contents) || contents.length === 0) return "* GenerateContentRequest.contents: contents is not specified";
    const of = (content, key) => (content?.parts ?? []).filter((part) => part[key] !== undefined).map((part) => part[key]);
    for (const [at, content] of contents.entries()) {
      if (!["user", "model"].includes(content.role)) return "Please use a valid role: user, model.";
      if (!content.parts?.length) return `* GenerateContentRequest.contents[${at}].parts: contents.parts must not be empty.`;
      for (const [number, part] of content.parts.entries()) {
        const where = `* GenerateContentRequest.contents[${at}].parts[${number}]`;
        const data = ["text", "functionCall", "functionResponse", "inlineData"].filter((key) => part[key] !== undefined);
        // A text may be empty where all there is to give back is a signature.
        if (data.length !== 1 || (part.text === "" && !part.thoughtSignature))
          return `${where}.data: required oneof field 'data' must have one initialized field`;
        if (part.functionCall && blank(part.functionCall.name)) return `${where}.function_call.name: Name cannot be empty.`;
        if (part.functionResponse && blank(part.functionResponse.name)) return `${where}.function_response.name: Name cannot be empty.`;
        if (part.functionResponse && !object(part.functionResponse.response))
          return `${where}.function_response.response: required field is missing.`;
        if (part.thoughtSignature && !/^[A-Za-z0-9+/]+={0,2}$/.test(part.thoughtSignature)) return "Base64 decoding failed for thought_signature";
      }
      const [calls, answers, before] = [of(content, "functionCall"), of(content, "functionResponse"), contents[at - 1]];
      if (calls.length > 0) {
        if (before?.role !== "user")
          return "Please ensure that function call turn comes immediately after a user turn or after a function response turn.";
        const given = of(contents[at + 1], "functionResponse");
        if (given.length !== calls.length)
          return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.";
        const ids = new Set(given.map((answer) => answer.id));
        if (calls.some((call) => blank(call.id) || !ids.has(call.id)))
          return "Please ensure that every function response has the id of its function call.";
      }
      if (answers.length > 0) {
        if (content.role !== "user") return "Please ensure that function response turn has the role user.";
        if (of(before, "functionCall").length === 0) return "Please ensure that function response turn comes immediately after a function call turn.";
        if (answers.length !== content.parts.length) return "Please ensure that a function response turn has function response parts only.";
      }
    }
    if (contents.at(-1).role !== "user") return "Please ensure that multiturn requests ends with a user role or a function response.";
    const asked = contents.findLastIndex((content) => content.role === "user" && of(content, "text").length > 0);
    const unsigned = contents.findIndex(
      (content, at) =>
        at > asked && content.parts.find((part) => part.functionCall)?.thoughtSignature === undefined && of(content, "functionCall").length > 0,
    );
    if (unsigned >= 0) return `Function call is missing a thought_signature in functionCall parts. Additional data, position ${unsigned}.`;
    return undefined;
  },

  error: (message, status = "INVALID_ARGUMENT", code = 400) => ({ error: { code, message, status } }),
  overflow(used, window) {
    return [400, this.error(`The input token count (${used}) exceeds the maximum number of tokens allowed (${window}).`)];
  },
  limited() {
    return [429, this.error("Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED", 429)];
  },

  events({ id, thinking, text, calls, usage }) {
    const usageMetadata = {
      promptTokenCount: usage.prompt,
      cachedContentTokenCount: usage.cached,
      candidatesTokenCount: usage.answer,
      totalTokenCount: usage.prompt + usage.answer,
    };
    const chunk = (parts, rest = {}) => {
      const candidates = [{ content: { role: "model", parts }, index: 0, ...rest }];
      return `data: ${JSON.stringify({ candidates, usageMetadata, modelVersion: this.model, responseId: `r${id}` })}\n\n`;
    };
    const call = ({ name, args }, number) => ({
      functionCall: { id: `call_${id}_${number}`, name, args },
      ...(number === 0 ? { thoughtSignature: signed(name) } : {}),
    });
    return [
      ...(thinking ? [chunk([{ thought: true, text: thinking }])] : []),
      ...(text ? [chunk([{ text }])] : []),
      ...(calls.length > 0 ? [chunk(calls.map(call))] : []),
      chunk([{ text: "" }], { finishReason: "STOP" }),
    ];
  },
};
