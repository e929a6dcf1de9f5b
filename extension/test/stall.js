// Stands still in one handler of a failed turn, so that a person's abort can come just there.

import { setTimeout as sleep } from "node:timers/promises";

export default function stall(pi) {
  pi.on(process.env.PI_FOLD_TEST_STALL, async (event, ctx) => {
    if (event.outcome === "completed") return;
    ctx.ui.notify("stalled", "info");
    await sleep(300);
  });
}
