/** The last ten alerts of the tab, as on the page Alerts. */

import { to } from "../../app.js";
import { foreign, h } from "../../dom/element.js";
import { count } from "../../format.js";
import { text as alerts, whatWords } from "../../text/alerts.js";
import { text } from "../../text/overview.js";
import { ago, card, status } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";

/** @typedef {import("../../data/alerts.js").Group} Group */

const SHOWN = 10;
/** Ages are drawn anew so often, in ms. */
const CLOCK_MS = 5_000;

export class LastAlerts {
  /**
   * @param {import("../../app.js").App} app
   * @param {AbortSignal} signal
   */
  constructor(app, signal) {
    const table = /** @type {Table<Group>} */ (
      new Table({
        name: "last-alerts",
        label: text.lastAlerts,
        plain: true,
        key: (group) => group.key,
        empty: () => empty(text.noAlerts),
        columns: [
          { name: "tone", label: alerts.columns.tone, cell: (group) => status(group.told.tone, alerts.tones[group.told.tone]) },
          { name: "what", label: alerts.columns.what, cell: (group) => foreign(whatWords(group.told.what)) },
          { name: "about", label: alerts.columns.about, cell: (group) => foreign(group.told.about.join(" › ")) },
          { name: "count", label: alerts.columns.count, number: true, cell: (group) => count(group.count) },
          { name: "last", label: alerts.columns.last, number: true, cell: (group) => ago(group.last) },
        ],
      })
    );
    this.element = card(text.lastAlerts, { flush: true, actions: [h("a", { class: "small", href: to("alerts") }, text.all)] }, table.element);
    const draw = () => table.setRows(app.alerts.latest(SHOWN));
    app.alerts.addEventListener("change", draw, { signal });
    const clock = setInterval(() => table.redraw(), CLOCK_MS);
    signal.addEventListener("abort", () => clearInterval(clock));
    draw();
  }
}
