// What a person's screen shows of texts that others wrote.

import assert from "node:assert/strict";
import { test } from "node:test";
import { visibleWidth } from "@earendil-works/pi-tui";
import fc from "fast-check";
import { Editor } from "../dist/editor.js";
import { gist, printable, say } from "../dist/words.js";

test("a text of others moves no cursor, rings no bell and colours nothing; its lines stay lines", () => {
  assert.equal(printable("a\x1b[31mred\x1b[0m\x07\tb\r\nc\x9b2J\u202e\ud800"), "ared\ufffd    b\nc\ufffd2J\ufffd\ufffd");
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    assert.doesNotMatch(printable(text), /[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
    assert.ok(printable(text).isWellFormed());
  }));
});

test("no line of the map is wider than the screen, whatever stands in the window and however narrow the screen is", async () => {
  const theme = { fg: (_, text) => text, bold: (text) => text };
  const paint = { shades: Array(6).fill("\x1b[31m"), deeper: Array(6).fill("\x1b[32m"), muted: (text) => text, error: (text) => text };
  const row = fc.record({
    id: fc.string(), category: fc.nat(5), entries: fc.array(fc.string(), { minLength: 1, maxLength: 3 }), shown: fc.nat(), original: fc.nat(), pinned: fc.boolean(),
    fold: fc.constantFrom(undefined, "tool", "consolidated"), gist: fc.string({ unit: "binary" }), state: fc.constantFrom("raw", "marked"), mark: fc.constantFrom(null, 3),
  });
  const text = fc.string({ unit: "binary", maxLength: 400 });
  await fc.assert(fc.asyncProperty(fc.array(row, { maxLength: 8 }), text, fc.integer({ min: 1, max: 120 }), fc.constantFrom("", "\r"), async (rows, words, width, key) => {
    const asked = { gauge: async () => undefined, map: async () => rows, act: async () => ({ text: words }), read: async () => ({ text: words, start: 0, end: words.length, whole: words.length + 1 }), seen: async () => words, gist: () => words };
    const tui = { requestRender: () => {}, terminal: { rows: 24 } };
    const keys = { matches: (data, name) => data === "\r" && name === "tui.select.confirm" };
    const editor = new Editor(asked, { at: 0, open: new Set(), said: words }, tui, theme, keys, () => paint, () => {});
    await new Promise((resolve) => setImmediate(resolve));
    editor.handleInput(key);
    await new Promise((resolve) => setImmediate(resolve));
    for (const line of editor.render(width)) {
      assert.ok(visibleWidth(line) <= width, `${visibleWidth(line)} of ${width}: ${JSON.stringify(line)}`);
      assert.doesNotMatch(line, /[\n\r\x07]/);
    }
  }), { numRuns: 60 });
});

test("a notice with a path in it that would move the cursor does not", () => {
  const told = [];
  say({ hasUI: true, ui: { notify: (words, level) => told.push([words, level]) } }, "no copy of /tmp/\x1b]0;title\x07\x1b[2Jx\u202e", "warning");
  assert.deepEqual(told, [["pi-fold: no copy of /tmp/x\ufffd", "warning"]]);
});

test("every kind of entry has a gist", () => {
  const kinds = [
    [{ type: "message", message: { role: "user", content: "why?" } }, "user: why?"],
    [{ type: "message", message: { role: "assistant", content: [{ type: "thinking", thinking: "hm" }, { type: "toolCall", name: "read", arguments: { path: "a" } }] } }, 'assistant: read({"path":"a"})'],
    [{ type: "message", message: { role: "toolResult", content: [{ type: "image", mimeType: "image/png" }] } }, "toolResult: (image, image/png)"],
    [{ type: "message", message: { role: "bashExecution", command: "ls" } }, "bashExecution: ls"],
    [{ type: "compaction", summary: "before" }, "compaction: before"],
    [{ type: "custom_message", content: "note" }, "custom_message: note"],
    [undefined, ""],
  ];
  for (const [entry, words] of kinds) assert.equal(gist(entry), words);
});
