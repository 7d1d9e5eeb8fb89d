/** The events of a group at the side: when each came, and all that the server said. */

import { foreign, h } from "../../dom/element.js";
import { clockTime, count } from "../../format.js";
import { text, whatWords } from "../../text/alerts.js";
import { facts, status, when } from "../../ui/blocks.js";
import { openPanel } from "../../ui/dialog.js";
import { jsonTree } from "../../ui/payload.js";

/** So many events are shown of a group. */
const SHOWN = 50;

/**
 * @param {import("../../app.js").App} app
 * @param {import("../../data/alerts.js").Group} group
 * @param {AbortSignal} signal
 */
export function openGroup(app, group, signal) {
  const kept = app.alerts.of(group.key);
  const { told } = group;
  openPanel(
    foreign(whatWords(told.what)),
    { signal },
    facts([
      [text.columns.tone, status(told.tone, text.tones[told.tone])],
      [text.columns.about, told.about.length ? foreign(told.about.join(" › ")) : null],
      [text.columns.reason, told.reason ? foreign(told.reason) : null],
      [text.subject, foreign(group.subject, "mono")],
      [text.count, count(group.count)],
      [text.first, when(group.first)],
      [text.last, when(group.last)],
    ]),
    h("h3", {}, kept.length ? text.newest(count(kept.length)) : text.noneKept),
    kept.slice(0, SHOWN).map((event, place) => h("details", { open: place === 0 }, h("summary", {}, clockTime(event.time)), jsonTree(event.document))),
  );
}
