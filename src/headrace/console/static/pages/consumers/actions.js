/** What can be done to a consumer: its buttons, and the dialogs of those that ask. */

import { to } from "../../app.js";
import { h } from "../../dom/element.js";
import { asDate, count, readDurationNs } from "../../format.js";
import { deleteConsumer, pauseConsumer, resetConsumer, unpinConsumer } from "../../nats/consumers.js";
import { noted } from "../../nats/own_actions.js";
import { text } from "../../text/consumers.js";
import { button, onCommandLine, shellWord } from "../../ui/blocks.js";
import { openDanger, openForm } from "../../ui/dialog.js";
import { field, input } from "../../ui/fields.js";
import { menu } from "../../ui/menu.js";
import { attempt, say } from "../../ui/toasts.js";
import { forbidden } from "../streams/rights.js";
import { openEditConsumer } from "./form.js";
import { openNext } from "./next.js";
import { openPeek } from "./peek.js";

/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../../nats/jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("../index.js").Place} Place */

/**
 * @param {Place} place
 * @param {Link} link
 * @param {ConsumerInfo} info
 * @param {StreamConfig} stream
 * @param {() => void} done
 * @returns {import("../../dom/element.js").Child[]}
 */
export function consumerActions(place, link, info, stream, done) {
  const { stream_name: streamName, name } = info;
  const why = (/** @type {string} */ request) => forbidden(link, request, streamName, name);
  const groups = /** @type {{ group: string, pinned_client_id?: string }[]} */ (info.priority_groups ?? []);
  return [
    button(text.peek, () => openPeek(place, link, info, stream)),
    button(text.next, () => openNext(place, link, info, done), { disabled: () => (info.config.deliver_subject ? text.notPush : why("CONSUMER.MSG.NEXT")) }),
    info.paused
      ? button(text.resume, () => void attempt(() => pauseConsumer(link, streamName, name), text.resumed(name)).then(done), { icon: "play", disabled: () => why("CONSUMER.PAUSE") })
      : button(text.pause, () => openPause(place, link, info, done), { icon: "pause", disabled: () => why("CONSUMER.PAUSE") }),
    menu(text.more, () => [
      item(text.edit, () => openEditConsumer(place, link, info, done), why("CONSUMER.CREATE")),
      item(text.reset, () => openReset(place, link, info, done), why("CONSUMER.RESET")),
      ...groups.filter((group) => group.pinned_client_id).map((group) =>
        item(`${text.unpin}: ${group.group}`, () => void attempt(() => unpinConsumer(link, streamName, name, group.group), text.unpinned).then(done), why("CONSUMER.UNPIN"))),
      item(text.remove, () => openDelete(place, link, info, stream), why("CONSUMER.DELETE")),
    ], { kind: "", icon: "more" }),
  ];
}

/**
 * @param {string} label
 * @param {() => void} press
 * @param {string} disabled
 */
function item(label, press, disabled) {
  return h("button", { type: "button", onclick: press, disabled: Boolean(disabled), title: disabled || null }, label);
}

/**
 * @param {Place} place
 * @param {Link} link
 * @param {ConsumerInfo} info
 * @param {() => void} done
 */
function openPause(place, link, info, done) {
  const { stream_name: streamName, name } = info;
  const until = field(text.pauseFor, input({ value: "1h", class: "medium" }), { hint: text.pauseHint, check: (value) => (pauseEnd(value) ? "" : text.pauseWrong) });
  openForm(text.pauseTitle(name), {
    fields: [h("p", { class: "muted" }, text.pauseNote), until.element], verb: text.pause, signal: place.signal, isRight: until.isRight,
    note: onCommandLine(`headrace consumer pause ${shellWord(streamName)} ${shellWord(name)} 1h`),
    run: async () => {
      await pauseConsumer(link, streamName, name, pauseEnd(until.value())?.toISOString());
      say(text.paused(name));
      done();
    },
  });
}

/** The time that a person typed, or in so long; null where it is none that is to come. @param {string} typed */
function pauseEnd(typed) {
  const ns = readDurationNs(typed);
  const end = ns !== null ? new Date(Date.now() + ns / 1e6) : asDate(typed.trim().replace(" ", "T"));
  return end && end.getTime() > Date.now() ? end : null;
}

/**
 * @param {Place} place
 * @param {Link} link
 * @param {ConsumerInfo} info
 * @param {() => void} done
 */
function openReset(place, link, info, done) {
  const { stream_name: streamName, name } = info;
  const sequence = field(text.resetSequence, input({ inputmode: "numeric", class: "short" }), { hint: text.resetHint, check: (value) => (/^([1-9]\d{0,14})?$/.test(value.trim()) ? "" : text.resetWrong) });
  openForm(text.resetTitle(name), {
    fields: [sequence.element], verb: text.goOn, kind: "", signal: place.signal, isRight: sequence.isRight,
    note: onCommandLine(`headrace consumer reset ${shellWord(streamName)} ${shellWord(name)} --sequence 1`),
    run: async () => {
      const wanted = sequence.value().trim() ? Number(sequence.value().trim()) : undefined;
      queueMicrotask(() => openDanger({
        title: text.resetTitle(name), name, verb: text.reset, doing: text.resetting(name), done: text.resetDone(name), signal: place.signal,
        lost: [wanted === undefined ? text.resetBehind : text.resetAt(count(wanted)), text.resetLost],
        run: async () => { await resetConsumer(link, streamName, name, wanted); done(); },
      }));
    },
  });
}

/**
 * @param {Place} place
 * @param {Link} link
 * @param {ConsumerInfo} info
 * @param {StreamConfig} stream
 */
function openDelete(place, link, info, stream) {
  const { stream_name: streamName, name } = info;
  const undone = info.num_pending + info.num_ack_pending;
  openDanger({
    title: text.deleteTitle(name), name, verb: text.remove, doing: text.deleting(name), done: text.deleted(name),
    lost: [text.deleteLost, ...(undone ? [text.deletePending(count(undone))] : []), ...(stream.retention === "workqueue" ? [text.deleteWork] : [])],
    run: async () => {
      await noted(link, "consumerDelete", [streamName, name], deleteConsumer(link, streamName, name));
      if (!place.signal.aborted) place.go(to("streams", [streamName, "consumers"]));
    },
  });
}
