/** The list of what this tab did, as a dialog. */

import { foreign, h } from "../dom/element.js";
import { exactTime, time, utc } from "../format.js";
import { ownActions } from "../nats/own_actions.js";
import { text as common } from "../text/common.js";
import { text, what } from "../text/own_actions.js";
import { explained } from "../text/problems.js";
import { status } from "./blocks.js";
import { openDialog } from "./dialog.js";
import { empty } from "./empty.js";
import { Table } from "./table.js";

/** @typedef {import("../nats/own_actions.js").OwnAction} OwnAction */

const TONES = /** @type {Record<OwnAction["state"], import("./blocks.js").Tone>} */ ({ sent: "idle", done: "good", failed: "bad" });

export function openOwnActions() {
  const { columns } = text;
  const table = /** @type {Table<OwnAction>} */ (
    new Table({
      name: "own-actions",
      label: text.label,
      plain: true,
      key: (action) => String(action.id),
      json: ({ id: _, ...action }) => ({ ...action, at: new Date(action.at).toISOString(), problem: problem(action) || undefined }),
      empty: () => empty(text.none),
      columns: [
        { name: "at", label: columns.at, cell: (action) => h("time", { title: `${time(action.at)} (${utc(action.at)})` }, exactTime(action.at)) },
        { name: "what", label: columns.what, cell: (action) => what[action.what] },
        { name: "about", label: columns.about, cell: (action) => foreign(action.about) },
        { name: "by", label: columns.by, cell: (action) => foreign(action.by) },
        { name: "state", label: columns.state, wide: true, cell: (action) => h("span", {}, status(TONES[action.state], text.states[action.state]), " ", foreign(problem(action))) },
      ],
    })
  );
  const draw = () => table.setRows([...ownActions.all].reverse());
  ownActions.addEventListener("change", draw);
  openDialog(common.ownActions, { class: "wide", closed: () => ownActions.removeEventListener("change", draw) }, h("div", { class: "stack" }, table.element, h("p", { class: "muted small" }, text.note)));
  draw();
}

/** @param {{ problem: unknown }} action */
function problem({ problem: error }) {
  if (!error) return "";
  const { title, detail } = explained(error);
  return [title, detail].filter(Boolean).join(" ");
}
