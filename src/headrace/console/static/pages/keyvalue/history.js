/** The history of a key: its revisions, newest first, each against the one before, and a way back. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes } from "../../format.js";
import { text } from "../../text/keyvalue.js";
import { ago, button, tag } from "../../ui/blocks.js";
import { difference } from "../../ui/difference.js";
import { openForm } from "../../ui/dialog.js";
import { empty } from "../../ui/empty.js";
import { payloadLine, payloadView } from "../../ui/payload.js";
import { say } from "../../ui/toasts.js";
import { operationWord } from "./keys.js";
import { textOf } from "./value.js";

/** @typedef {import("../../nats/keyvalue.js").Entry} Entry */

/**
 * @param {import("../../nats/keyvalue.js").Bucket} bucket
 * @param {Entry[]} entries newest first
 * @param {{ revertable: boolean, forbidden: () => string, signal: AbortSignal, changed: () => void }} options
 */
export function historyView(bucket, entries, { revertable, forbidden, signal, changed }) {
  if (!entries.length) return empty(text.noHistory);
  return h(
    "ol",
    { class: "kv-history" },
    entries.map((entry, place) =>
      h("li", {}, revision(entry, entries[place + 1] ?? null, place === 0, revertable && place > 0 && entry.operation === "PUT"
        ? button(text.revert, () => askRevert(bucket, entry, entries[0], signal, changed), { kind: "small", disabled: forbidden })
        : null)),
    ),
  );
}

/**
 * @param {Entry} entry
 * @param {Entry | null} before
 * @param {boolean} isCurrent
 * @param {import("../../dom/element.js").Child} action
 */
function revision(entry, before, isCurrent, action) {
  const body = h("div", { class: "body stack" });
  const who = entry.headers.find(([name]) => name === "Headrace-Console")?.[1];
  const details = h(
    "details",
    {},
    h(
      "summary",
      {},
      h("strong", { class: "number" }, `${entry.revision}`),
      operationWord(entry.operation),
      isCurrent && tag(text.current),
      ago(entry.time),
      entry.operation === "PUT" && h("span", { class: "muted nowrap" }, bytes(entry.size)),
      entry.operation === "PUT" && h("span", { class: "line-value" }, payloadLine(entry.value, 80)),
    ),
    body,
  );
  details.addEventListener("toggle", () => {
    if (details.open && !body.childNodes.length) replace(body, who && h("p", { class: "muted small" }, text.from(""), foreign(who)), against(entry, before), action);
  });
  return details;
}

/**
 * @param {Entry} entry
 * @param {Entry | null} before
 */
function against(entry, before) {
  const [old, young] = [before && textOf(before.value), textOf(entry.value)];
  if (old === null || young === null || !before) return h("div", { class: "stack" }, !before && h("p", { class: "muted small" }, text.first), payloadView(entry.value));
  return h("div", { class: "stack" }, h("p", { class: "muted small" }, text.against(before.revision)), difference(old, young));
}

/**
 * @param {import("../../nats/keyvalue.js").Bucket} bucket
 * @param {Entry} entry
 * @param {Entry} current
 * @param {AbortSignal} signal
 * @param {() => void} changed
 */
function askRevert(bucket, entry, current, signal, changed) {
  const [old, young] = [current.operation === "PUT" ? textOf(current.value) : "", textOf(entry.value)];
  openForm(text.revertTitle(entry.revision), {
    signal,
    wide: true,
    verb: text.revert,
    fields: [h("p", {}, text.revertNote), old !== null && young !== null ? difference(old, young) : payloadView(entry.value)],
    run: async () => {
      say(text.saved(await bucket.put(entry.key, entry.value, { expected: current.revision })));
      changed();
    },
  });
}
