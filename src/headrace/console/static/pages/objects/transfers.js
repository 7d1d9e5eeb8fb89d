/** What is on its way: uploads and downloads of this tab, with their progress. */

import { transfers } from "../../data/transfers.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, byteRate } from "../../format.js";
import { text } from "../../text/objects.js";
import { button, card, status } from "../../ui/blocks.js";
import { words } from "./uploads.js";

/** @typedef {import("../../data/transfers.js").Transfer} Transfer */

const TONES = /** @type {const} */ ({ waiting: "idle", running: "info", done: "good", failed: "bad", stopped: "warn" });

/**
 * The list; it is not there while nothing was sent or asked for.
 * @param {AbortSignal} signal
 */
export function transferList(signal) {
  const list = h("ul", { class: "transfers" });
  const box = card(text.transfers, { actions: [button(text.clear, () => transfers.clear(), { kind: "small" })] }, list);
  const rows = /** @type {Map<number, Row>} */ (new Map());
  const draw = () => {
    box.hidden = transfers.list.length === 0;
    const shown = transfers.list.slice(0, MOST_SHOWN);
    for (const transfer of shown) rows.set(transfer.id, updated(rows.get(transfer.id), transfer));
    const elements = shown.map(({ id }) => /** @type {Row} */ (rows.get(id)).element);
    if (elements.some((element, place) => list.children[place] !== element) || list.children.length !== elements.length) replace(list, elements);
  };
  transfers.addEventListener("change", draw, { signal });
  draw();
  return box;
}

const MOST_SHOWN = 100;

/** @typedef {{ element: HTMLElement, state: import("../../data/transfers.js").State, progress: HTMLProgressElement, words: HTMLElement }} Row */

/**
 * The row of a transfer: a new one where its state changed, else the same with its progress, so that its button stays where it is.
 *
 * @param {Row | undefined} row
 * @param {Transfer} transfer
 * @returns {Row}
 */
function updated(row, transfer) {
  const { size, done, state, began } = transfer;
  const known = row?.state === state ? row : made(transfer);
  known.progress.max = Math.max(1, size);
  known.progress.value = done;
  known.words.textContent = state === "running" ? text.progress(bytes(done), bytes(size), byteRate(done / Math.max(0.1, (Date.now() - began) / 1_000))) : bytes(size);
  return known;
}

/** @param {Transfer} transfer @returns {Row} */
function made(transfer) {
  const { direction, name, state, error } = transfer;
  const isGoing = state === "running" || state === "waiting";
  const progress = h("progress", { "aria-label": name, hidden: state !== "running" });
  const amount = h("span", { class: "muted small number" });
  const element = h(
    "li",
    {},
    h(
      "div",
      { class: "what" },
      status(TONES[state], `${direction === "up" ? text.up : text.down} ${text.states[state]}`),
      foreign(name),
      amount,
      state === "failed" && h("span", { class: "small" }, foreign(words(error))),
    ),
    isGoing ? button(text.stop, () => transfer.stop(), { kind: "small" }) : h("span"),
    progress,
  );
  return { element, state, progress, words: amount };
}
