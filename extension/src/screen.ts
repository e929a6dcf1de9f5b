// The row above the footer, in an interactive screen and nowhere else.

import type { Component, TUI } from "@earendil-works/pi-tui";
import { paintFor, row } from "./bar.ts";
import type { Gauge, Shade } from "./native.ts";
import type { ExtensionContext, Theme } from "./pi.ts";

const KEY = "pi-fold";

export class Screen {
  /** What is shown: `undefined` while nothing is known of the window. */
  #gauge: Gauge | undefined;
  #shades: readonly Shade[] = [];
  #drawn: { request: () => void; invalidate: () => void } | undefined;

  /** Puts the row there; Pi takes it away when the session changes. */
  show(ctx: ExtensionContext): void {
    if (ctx.mode !== "tui") return;
    ctx.ui.setWidget(KEY, (tui: TUI, theme: Theme) => this.#row(tui, theme), { placement: "belowEditor" });
  }

  /** Draws another reading. */
  update(gauge: Gauge | undefined): void {
    if (JSON.stringify(gauge) === JSON.stringify(this.#gauge)) return;
    this.#gauge = gauge;
    this.#redraw();
  }

  /** Draws in other colours. */
  recolour(shades: readonly Shade[]): void {
    this.#shades = shades;
    this.#redraw();
  }

  get gauge(): Gauge | undefined {
    return this.#gauge;
  }

  get shades(): readonly Shade[] {
    return this.#shades;
  }

  #redraw(): void {
    this.#drawn?.invalidate();
    this.#drawn?.request();
  }

  #row(tui: TUI, theme: Theme): Component {
    let drawn: { width: number; lines: string[] } | undefined;
    const invalidate = () => {
      drawn = undefined;
    };
    this.#drawn = { request: () => tui.requestRender(), invalidate };
    return {
      render: (width: number) => {
        if (drawn?.width !== width) drawn = { width, lines: [row(this.#gauge, paintFor(theme, this.#shades), width)] };
        return drawn.lines;
      },
      invalidate,
    };
  }
}
