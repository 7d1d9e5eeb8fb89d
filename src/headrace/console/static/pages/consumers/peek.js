/**
 * Looking at what a consumer has not done, without it: stored messages are read beside it, so nothing is delivered or
 * counted, and on a work queue nothing is taken. A consumer made for the look would be refused there.
 */

import { to } from "../../app.js";
import { filtersOf } from "../../data/consumer_lag.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { readForward } from "../../nats/stored.js";
import { covers } from "../../nats/subjects.js";
import { text } from "../../text/consumers.js";
import { text as common } from "../../text/common.js";
import { text as messageText } from "../../text/stream_messages.js";
import { onCommandLine, shellWord, tag, when } from "../../ui/blocks.js";
import { openPanel } from "../../ui/dialog.js";
import { empty, failure } from "../../ui/empty.js";
import { payloadView } from "../../ui/payload.js";

/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../../nats/jetstream.js").StoredMessage} StoredMessage */

/** So many messages are shown. */
const MOST = 10;
/** With several filters so many messages are looked through at most. */
const MOST_READ = 1_000;

/**
 * @param {import("../index.js").Place} place
 * @param {import("../../nats/link.js").Link} link
 * @param {ConsumerInfo} info
 * @param {import("../../nats/jetstream.js").StreamConfig} stream
 */
export function openPeek(place, link, info, stream) {
  const body = h("div", { class: "stack" }, common.loading);
  openPanel(text.peekTitle(info.name), { signal: place.signal }, h("p", { class: "hint-box" }, text.peekNote), body, onCommandLine(`headrace stream view ${shellWord(info.stream_name)} --from ${info.ack_floor.stream_seq + 1}`));
  void undone(link, info, stream, place.signal).then(
    ({ found, isPart }) => replace(body, found.length ? [h("p", { class: "muted" }, text.peekFirst(count(found.length))), ...found.map((message) => messageItem(info, message))] : empty(isPart ? text.peekPart : text.peekNone)),
    (error) => replace(body, failure(error)),
  );
}

/**
 * The first messages that the consumer has not done.
 *
 * @param {import("../../nats/link.js").Link} link
 * @param {ConsumerInfo} info
 * @param {import("../../nats/jetstream.js").StreamConfig} stream
 * @param {AbortSignal} signal
 */
async function undone(link, info, stream, signal) {
  const found = /** @type {StoredMessage[]} */ ([]);
  if (!info.num_pending && !info.num_ack_pending) return { found, isPart: false };
  const filters = filtersOf(info.config);
  const subject = filters.length === 1 ? filters[0] : ">";
  const isRead = await readForward(link, stream, {
    from: info.ack_floor.stream_seq + 1, subject, count: filters.length > 1 ? MOST_READ : MOST, signal,
    take: (message) => {
      if (filters.length < 2 || filters.some((filter) => covers(filter, message.subject))) found.push(message);
      return found.length < MOST;
    },
  });
  return { found, isPart: !isRead && found.length < MOST };
}

/**
 * @param {ConsumerInfo} info
 * @param {StoredMessage} message
 */
function messageItem(info, message) {
  const isDelivered = message.sequence <= info.delivered.stream_seq;
  const body = h("div");
  const details = h(
    "details",
    { class: "message-item" },
    h("summary", {}, h("span", { class: "row" }, h("strong", {}, count(message.sequence)), foreign(message.subject, "mono"), tag(isDelivered ? text.peekDelivered : text.peekWaiting), h("span", { class: "muted small" }, bytes(message.data.length)), when(message.time))),
    body,
  );
  details.addEventListener("toggle", () => {
    if (details.open && !body.hasChildNodes()) replace(body, payloadView(message.data), h("a", { href: to("streams", [info.stream_name, "messages"], { seq: message.sequence }) }, messageText.message(count(message.sequence))));
  });
  return details;
}
