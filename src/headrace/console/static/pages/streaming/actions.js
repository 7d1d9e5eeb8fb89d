/** What a person may do with a channel: purge it, remove it, let a durable go over to JetStream. */

import { foreign, h } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { adoptDurable, deleteChannel, purgeChannel } from "../../nats/stan.js";
import { text } from "../../text/streaming.js";
import { openDanger, openForm } from "../../ui/dialog.js";
import { field, input } from "../../ui/fields.js";
import { say } from "../../ui/toasts.js";

/** @typedef {import("../../nats/stan.js").Channel} Channel */
/** @typedef {import("../../nats/stan.js").Subscription} Subscription */
/**
 * The channel, and what follows: `changed` when it is another one now, `left` when it is gone.
 * @typedef {{ link: import("../../nats/link.js").Link, cluster: string, name: string, signal: AbortSignal, changed: () => void, left: () => void }} Target
 */

/**
 * @param {Target} target
 * @param {Channel} channel
 */
export function purge(target, channel) {
  const check = (/** @type {string} */ value) => (/^\d{0,15}$/.test(value.trim()) ? "" : text.numberWrong);
  const keep = field(text.keep, input({ name: "keep", inputmode: "numeric" }), { hint: text.keepHint, check });
  const before = field(text.before, input({ name: "before", inputmode: "numeric" }), { hint: text.beforeHint, check });
  openForm(text.purgeTitle(channel.name), {
    fields: [keep.element, before.element],
    verb: text.next,
    signal: target.signal,
    isRight: () => [keep.isRight(), before.isRight()].every(Boolean),
    run: async () => {
      const request = { channel: target.name, ...numbered("keep", keep.value()), ...numbered("before_sequence", before.value()) };
      const most = Math.max(0, Math.min(channel.msgs, request.before_sequence ? request.before_sequence - channel.first_seq : channel.msgs) - (request.keep ?? 0));
      openDanger({
        title: text.purgeTitle(channel.name), lost: [text.purgeLost(count(most))], name: channel.name, verb: text.purge, doing: text.purging, done: text.purged, signal: target.signal,
        run: async () => {
          await purgeChannel(target.link, target.cluster, request);
          target.changed();
        },
      });
    },
  });
}

/**
 * @param {"keep" | "before_sequence"} name
 * @param {string} typed
 * @returns {{ keep?: number, before_sequence?: number }}
 */
function numbered(name, typed) {
  return typed.trim() ? { [name]: Number(typed) } : {};
}

/**
 * @param {Target} target
 * @param {Channel} channel
 */
export function remove(target, channel) {
  openDanger({
    title: text.removeTitle(channel.name),
    lost: [text.removeLost(count(channel.msgs), bytes(channel.bytes)), channel.subs_count > 0 && text.removeSubscriptions(count(channel.subs_count))].filter(Boolean),
    name: channel.name, verb: text.remove, doing: text.removing, done: text.removed, signal: target.signal,
    run: async () => {
      await deleteChannel(target.link, target.cluster, target.name);
      target.left();
    },
  });
}

/**
 * @param {Target} target
 * @param {Subscription} durable
 */
export function adopt(target, durable) {
  const name = field(text.consumer, input({ class: "mono", name: "consumer", value: durable.durable_name.replace(/[^\w-]/g, "_") }), { check: (value) => (/^[\w-]+$/.test(value.trim()) ? "" : text.consumerWrong) });
  openForm(text.adoptTitle(durable.durable_name), {
    fields: [name.element],
    note: h("p", { class: "hint-box" }, foreign(text.adoptNote)),
    verb: text.adopt,
    signal: target.signal,
    isRight: name.isRight,
    run: async () => {
      const client = durable.queue_name ? {} : { client_id: durable.client_id };
      const done = await adoptDurable(target.link, target.cluster, { channel: target.name, durable: durable.queue_name || durable.durable_name, consumer: name.value().trim(), ...client });
      say(text.adopted(done.stream, done.consumer, count(done.pending)));
      target.changed();
    },
  });
}
