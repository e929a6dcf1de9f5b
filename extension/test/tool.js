// A tool for tests, as an extension of its own: its results are long and tell what was asked.

export default function tool(pi) {
  pi.registerTool({
    name: "big",
    label: "big",
    description: "a long text",
    parameters: { type: "object", properties: { text: { type: "string" }, size: { type: "integer" } } },
    async execute(_id, { text, size = 6_000 }) {
      return { content: [{ type: "text", text: `RESULT of ${text} ${"y".repeat(size)}` }], details: undefined };
    },
  });
}
