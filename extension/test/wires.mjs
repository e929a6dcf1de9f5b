// A provider on loopback: four APIs as Pi's adapters speak them, and the rules by which the real ones refuse a request.
//
// A rule is written from the API's own words, not from what Pi happens to send: a request that only this provider takes proves nothing. Where the
// real APIs differ among models, the stricter one stands here.

import { createServer } from "node:http";
import { chat } from "./wires/chat.mjs";
import { gemini } from "./wires/gemini.mjs";
import { messages } from "./wires/messages.mjs";
import { responses } from "./wires/responses.mjs";

export const WIRES = { chat, responses, messages, gemini };

/** How many characters two texts have in common from the beginning. */
function common(one, other) {
  let at = 0;
  while (at < one.length && at < other.length && one[at] === other[at]) at += 1;
  return at;
}

/** How many requests do not begin with the one before them. */
export function rewrites({ wire }, requests) {
  const texts = requests.map((body) => JSON.stringify(wire.prompt(body)));
  return texts.filter((text, at) => at > 0 && !text.startsWith(texts[at - 1].slice(0, -2))).length;
}

/**
 * A provider that answers by a list of steps, one for each request it does not refuse; when the list is at its end it answers "done".
 *
 * | step | answer |
 * |---|---|
 * | `{ text }` | these words |
 * | `{ calls: [{ name, args }], text }` | calls of tools, after a few words |
 * | `{ overflow: true }` | the request is too long, in the API's own words |
 * | `{ limited: seconds }` | 429, with `retry-after` |
 * | `{ cut: true, ... }` | as without it, but the connection breaks in the middle |
 * | `{ hang: true }` | a beginning, and then nothing until the other side gives up |
 */
export async function provider(wire, steps = [], window = Infinity) {
  const mock = { requests: [], refused: [], overflows: 0, broken: 0, waiting: [] };
  let turn = 0;
  let before = "";
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (data) => (text += data));
    request.on("end", () => answer(request, response, text));
  });

  function answer(request, response, text) {
    const json = (status, body, headers = {}) =>
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
    if (!wire.path.test(request.url)) return json(404, wire.error(`there is no ${request.url}`));
    const body = JSON.parse(text);
    mock.requests.push(body);
    for (const wake of mock.waiting.splice(0)) wake();
    const refused = wire.refuses(body);
    if (refused) {
      mock.refused.push(refused);
      return json(400, wire.error(refused));
    }
    const prompt = JSON.stringify(wire.prompt(body));
    const used = Math.ceil(prompt.length / 4);
    if (used > window) {
      mock.overflows += 1;
      return json(...wire.overflow(used, window));
    }
    const id = turn;
    const step = steps[turn++] ?? { text: "done" };
    if (step.overflow) return json(...wire.overflow(window + 1_000, window));
    if (step.limited !== undefined) return json(...wire.limited(), { "retry-after": String(step.limited) });
    const usage = { prompt: used, cached: Math.floor(common(prompt, before) / 4), answer: 20 };
    before = prompt;
    const events = wire.events({ id, thinking: wire.thinks(body) ? `thought ${id}` : undefined, text: step.text, calls: step.calls ?? [], usage });
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (!step.cut && !step.hang) return response.end(events.join(""));
    response.write(events.slice(0, Math.ceil(events.length / 2)).join(""));
    if (step.cut) setTimeout(() => response.destroy(), 20);
    else response.on("close", () => (mock.broken += 1));
  }

  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return Object.assign(mock, {
    wire,
    window,
    url: `http://127.0.0.1:${server.address().port}${wire.base}`,
    /** Waits until so many requests have come. */
    async arrived(count) {
      while (mock.requests.length < count) await new Promise((wake) => mock.waiting.push(wake));
    },
    close() {
      server.closeAllConnections();
      return new Promise((closed) => server.close(closed));
    },
  });
}
