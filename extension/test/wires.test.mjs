// The provider of these tests refuses what the real ones refuse: each rule is seen to bite.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WIRES, provider } from "./wires.mjs";

const { chat, responses, messages, gemini } = WIRES;

/** Every broken request is a good one with one thing wrong. */
function bites(name, wire, good, broken) {
  test(`${name} takes a good request and refuses each broken one in its own words`, () => {
    for (const body of good()) assert.equal(wire.refuses(body), undefined, JSON.stringify(body));
    for (const [words, breaks] of broken) {
      const [body] = good();
      breaks(body);
      assert.match(wire.refuses(body) ?? "taken", words, JSON.stringify(body));
    }
  });
}

const call = (id) => ({ id, type: "function", function: { name: "big", arguments: "{}" } });
bites(
  "Chat Completions",
  chat,
  () => [
    {
      messages: [
        { role: "system", content: "You are" },
        { role: "user", content: [{ type: "text", text: "go" }] },
        { role: "assistant", content: null, tool_calls: [call("a"), call("b")] },
        { role: "tool", tool_call_id: "b", content: "two" },
        { role: "tool", tool_call_id: "a", content: "one" },
        { role: "assistant", content: "well" },
        { role: "user", content: "on" },
      ],
    },
    { messages: [{ role: "user", content: "go" }] },
  ],
  [
    [/empty array/, (body) => (body.messages = [])],
    [/must be a response to a preceeding message/, (body) => body.messages.splice(2, 1)],
    [/did not have response messages: a$/, (body) => body.messages.splice(4, 1)],
    [/did not have response messages: a, b/, (body) => body.messages.splice(3, 0, { role: "user", content: "well?" })],
    [/did not have response messages: a, b/, (body) => body.messages.splice(3)],
    [/must be a response/, (body) => body.messages.splice(5, 0, { role: "tool", tool_call_id: "a", content: "again" })],
    [/messages\[3\]\.tool_call_id/, (body) => delete body.messages[3].tool_call_id],
    [/tool_calls\[0\]\.id/, (body) => delete body.messages[2].tool_calls[0].id],
    [/maximum length 40/, (body) => (body.messages[2].tool_calls[0].id = "a".repeat(41))],
    [/Duplicate value/, (body) => (body.messages[2].tool_calls[1].id = "a")],
    [/function\.name/, (body) => (body.messages[2].tool_calls[0].function.name = "")],
    [/function\.arguments/, (body) => (body.messages[2].tool_calls[0].function.arguments = {})],
    [/tool_calls': empty array/, (body) => (body.messages[2].tool_calls = [])],
    [/Invalid value: 'model'/, (body) => (body.messages[5].role = "model")],
    [/'messages\[5\]\.content'.*null/, (body) => (body.messages[5].content = null)],
    [/'messages\[6\]\.content': empty string/, (body) => (body.messages[6].content = " ")],
    [/'messages\[1\]\.content\[0\]\.text'/, (body) => (body.messages[1].content[0].text = "")],
    [/'messages\[1\]\.content': empty array/, (body) => (body.messages[1].content = [])],
    [/'messages\[3\]\.content'/, (body) => (body.messages[3].content = "")],
  ],
);

const reasoning = (() => {
  const events = responses.events({ id: 1, thinking: "hm", calls: [{ name: "big", args: {} }], usage: {} });
  return JSON.parse(events.at(-1).split("data: ")[1]).response.output;
})();
bites(
  "Responses",
  responses,
  () =>
    structuredClone([
      {
        input: [
          { role: "user", content: [{ type: "input_text", text: "go" }] },
          ...reasoning,
          { type: "function_call", id: "fc_2", call_id: "b", name: "big", arguments: "{}" },
          { type: "function_call_output", call_id: "b", output: "two" },
          { type: "function_call_output", call_id: reasoning[1].call_id, output: "one" },
          { type: "message", role: "assistant", id: "msg_3", content: [{ type: "output_text", text: "well" }] },
        ],
      },
      { input: [{ role: "user", content: "go" }] },
    ]),
  [
    [/empty array/, (body) => (body.input = [])],
    [/No tool call found for function call output with call_id b/, (body) => body.input.splice(3, 1)],
    [/No tool output found for function call b/, (body) => body.input.splice(4, 1)],
    [/No tool call found/, (body) => body.input.splice(1, 0, body.input.splice(4, 1)[0])],
    [/Duplicate function call output/, (body) => body.input.push({ type: "function_call_output", call_id: "b", output: "x" })],
    [/Duplicate function call with/, (body) => (body.input[3].call_id = body.input[2].call_id)],
    [/Duplicate item found with id fc_2/, (body) => body.input.push({ ...body.input[3], call_id: "c" })],
    [/'rs_1' of type 'reasoning' was provided without its required following item/, (body) => body.input.splice(2, 1)],
    [
      /without its required following item/,
      (body) => body.input.push({ ...body.input.splice(1, 1)[0] }, { role: "user", content: "x" }) && delete body.input[1].id,
    ],
    [/'fc_r1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'/, (body) => body.input.splice(1, 1)],
    [/encrypted content/, (body) => (body.input[1].encrypted_content = "x")],
    [/begins with 'fc'/, (body) => (body.input[3].id = "call_2")],
    [/begins with 'msg'/, (body) => (body.input[6].id = "m")],
    [/call_id/, (body) => delete body.input[3].call_id],
    [/call_id/, (body) => delete body.input[4].call_id],
    [/maximum length 64/, (body) => (body.input[3].call_id = "b".repeat(65))],
    [/input\[3\]\.name/, (body) => (body.input[3].name = "")],
    [/input\[3\]\.arguments/, (body) => (body.input[3].arguments = {})],
    [/input\[4\]\.output/, (body) => delete body.input[4].output],
    [/input\[4\]\.output': empty/, (body) => (body.input[4].output = "")],
    [/Invalid value: 'tool'/, (body) => (body.input[0].role = "tool")],
    [/Invalid value: 'context'/, (body) => (body.input[0].type = "context")],
    [/input\[0\]\.content\[0\]\.text/, (body) => (body.input[0].content[0].text = "")],
    [/input\[6\]\.content': empty array/, (body) => (body.input[6].content = [])],
  ],
);

const thought = (() => {
  const events = messages.events({ id: 1, thinking: "hm", calls: [], usage: {} }).map((event) => JSON.parse(event.split("data: ")[1]));
  return { type: "thinking", thinking: "hm", signature: events.find((event) => event.delta?.type === "signature_delta").delta.signature };
})();
const use = (id) => ({ type: "tool_use", id, name: "big", input: {} });
const result = (id) => ({ type: "tool_result", tool_use_id: id, content: [{ type: "text", text: "long" }] });
bites(
  "Anthropic Messages",
  messages,
  () =>
    structuredClone([
      {
        thinking: { type: "enabled" },
        messages: [
          { role: "user", content: "go" },
          { role: "assistant", content: [{ type: "text", text: "well" }] },
          { role: "assistant", content: [thought, use("a"), use("b")] },
          { role: "user", content: [result("b"), result("a"), { type: "text", text: "on" }] },
          { role: "user", content: "two in a row" },
          { role: "assistant", content: [thought, { type: "text", text: "so" }, use("c")] },
          { role: "user", content: [result("c")] },
        ],
      },
      {
        messages: [
          { role: "user", content: "go" },
          { role: "assistant", content: [use("a")] },
          { role: "user", content: [result("a")] },
        ],
      },
    ]),
  [
    [/at least one message/, (body) => (body.messages = [])],
    [/messages\.2: `tool_use` ids were found without `tool_result` blocks immediately after: a\./, (body) => body.messages[3].content.splice(1, 1)],
    [/immediately after: a, b/, (body) => body.messages.splice(3, 1)],
    [/immediately after: a, b/, (body) => body.messages.splice(3, 0, { role: "user", content: "first" })],
    [/immediately after: a, b/, (body) => body.messages[3].content.unshift({ type: "text", text: "first" })],
    [/immediately after: c/, (body) => body.messages.pop()],
    [/messages\.2\.content\.0: unexpected `tool_use_id` found in `tool_result` blocks: b/, (body) => body.messages.splice(2, 1)],
    [/unexpected `tool_use_id`.*: d/, (body) => body.messages[3].content.splice(2, 0, result("d"))],
    [/multiple `tool_result` blocks with id: a/, (body) => body.messages[3].content.splice(2, 0, result("a"))],
    [/ids must be unique/, (body) => (body.messages[5].content[2].id = "a")],
    [/should match pattern/, (body) => (body.messages[5].content[2].id = "a|b")],
    [/should match pattern/, (body) => delete body.messages[5].content[2].id],
    [/tool_use_id: Field required/, (body) => delete body.messages[6].content[0].tool_use_id],
    [/valid dictionary/, (body) => (body.messages[5].content[2].input = "{}")],
    [/Unexpected role "system"/, (body) => (body.messages[1].role = "system")],
    [/first message must use/, (body) => body.messages.shift()],
    [/must end with a user message/, (body) => body.messages.push({ role: "assistant", content: "so" })],
    [/messages\.1: all messages must have non-empty content/, (body) => (body.messages[1].content = [])],
    [/must be non-empty/, (body) => (body.messages[1].content[0].text = "")],
    [/non-whitespace/, (body) => (body.messages[4].content = " \n")],
    [/must be non-empty/, (body) => (body.messages[6].content[0].content[0].text = "")],
    [/Invalid `signature`/, (body) => (body.messages[2].content[0].thinking = "ha")],
    [/`tool_use` blocks can only be in `assistant`/, (body) => body.messages[6].content.push(use("z"))],
    [/`tool_result` blocks can only be in `user`/, (body) => body.messages[1].content.push(result("z"))],
    [/messages\.5\.content\.0\.type: Expected `thinking`.*found `text`/, (body) => body.messages[5].content.shift()],
    [/Expected `thinking`.*found `text`/, (body) => body.messages.splice(5, 0, { role: "assistant", content: "folded" })],
  ],
);

const asks = (id, thoughtSignature) => ({ functionCall: { id, name: "big", args: {} }, ...(thoughtSignature ? { thoughtSignature } : {}) });
const says = (id) => ({ functionResponse: { id, name: "big", response: { output: "long" } } });
bites(
  "Gemini",
  gemini,
  () =>
    structuredClone([
      {
        contents: [
          { role: "user", parts: [{ text: "go" }] },
          { role: "model", parts: [{ text: "well" }, asks("a"), asks("b")] },
          { role: "user", parts: [says("b"), says("a")] },
          { role: "model", parts: [{ text: "so" }] },
          { role: "user", parts: [{ text: "on" }] },
          { role: "model", parts: [asks("c", "YWJj"), asks("d")] },
          { role: "user", parts: [says("c"), says("d")] },
        ],
      },
      {
        contents: [
          { role: "user", parts: [{ text: "go" }] },
          { role: "model", parts: [{ text: "", thoughtSignature: "YWJj" }] },
          { role: "user", parts: [{ text: "on" }] },
        ],
      },
    ]),
  [
    [/contents is not specified/, (body) => (body.contents = [])],
    [/function call turn comes immediately after a user turn/, (body) => body.contents.splice(1, 0, { role: "model", parts: [{ text: "folded" }] })],
    [/function call turn comes immediately after/, (body) => body.contents.shift()],
    [/number of function response parts/, (body) => body.contents[2].parts.pop()],
    [/number of function response parts/, (body) => body.contents.splice(2, 0, { role: "user", parts: [{ text: "first" }] })],
    [/number of function response parts/, (body) => body.contents.pop()],
    [/number of function response parts/, (body) => body.contents[2].parts.push(says("e"))],
    [/has the id of its function call/, (body) => (body.contents[2].parts[0].functionResponse.id = "e")],
    [/has the id of its function call/, (body) => delete body.contents[1].parts[1].functionCall.id],
    [/function response turn comes immediately after a function call turn/, (body) => body.contents.splice(1, 1)],
    [/function response parts only/, (body) => body.contents[2].parts.push({ text: "and" })],
    [/valid role/, (body) => (body.contents[1].role = "assistant")],
    [/contents\[3\]\.parts: contents\.parts must not be empty/, (body) => (body.contents[3].parts = [])],
    [/contents\[3\]\.parts\[0\]\.data/, (body) => (body.contents[3].parts[0].text = "")],
    [/function_call\.name/, (body) => (body.contents[1].parts[1].functionCall.name = "")],
    [/function_response\.name/, (body) => delete body.contents[2].parts[0].functionResponse.name],
    [/function_response\.response/, (body) => (body.contents[2].parts[0].functionResponse.response = "long")],
    [/Base64/, (body) => (body.contents[5].parts[0].thoughtSignature = "no!")],
    [/ends with a user role/, (body) => body.contents.push({ role: "model", parts: [{ text: "so" }] })],
    [/missing a thought_signature.*position 5/, (body) => delete body.contents[5].parts[0].thoughtSignature],
  ],
);

test("a broken request is answered with 400 and the API's own JSON, counts as refused, and uses no step up", async () => {
  const body = { chat: { messages: [] }, responses: { input: [] }, messages: { messages: [] }, gemini: { contents: [] } };
  const path = { chat: "/chat/completions", responses: "/responses", messages: "/v1/messages", gemini: "/models/m:streamGenerateContent?alt=sse" };
  for (const [name, wire] of Object.entries(WIRES)) {
    const mock = await provider(wire, [{ text: "hello" }]);
    const post = (what) => fetch(mock.url + path[name], { method: "POST", body: JSON.stringify(what) });
    const refused = await post(body[name]);
    assert.equal(refused.status, 400);
    assert.equal((await refused.json()).error.message, wire.refuses(body[name]), name);
    assert.equal(mock.refused.length, 1);
    const question = {
      messages: [{ role: "user", content: "hi" }],
      input: [{ role: "user", content: "hi" }],
      contents: [{ role: "user", parts: [{ text: "hi" }] }],
    };
    assert.match(await (await post(question)).text(), /hello/);
    await mock.close();
  }
});
