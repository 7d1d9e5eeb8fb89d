/** One channel: its figures, its messages from any sequence on, its subscriptions. */

import { to } from "../../app.js";
import { OFTEN, poll } from "../../data/poll.js";
import { keepInAddress } from "../../dom/address_query.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { Refused } from "../../nats/errors.js";
import { mayPublish } from "../../nats/rights.js";
import { adminSubject, channels } from "../../nats/stan.js";
import { text } from "../../text/streaming.js";
import { button, card, figure, figures, onCommandLine, pageHead, shellWord, status } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";
import { adopt, purge, remove } from "./actions.js";
import { MessageList } from "./messages.js";

/** @typedef {import("../index.js").Place} Place */
/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/stan.js").Channel} Channel */
/** @typedef {import("../../nats/stan.js").Subscription} Subscription */
/** @typedef {import("./actions.js").Target} Target */

/**
 * @param {Place} place
 * @param {Link} link
 * @param {string} cluster
 * @param {string} name
 */
export async function showChannel({ host, query, app, signal, go }, link, cluster, name) {
  const one = async () => {
    const [found] = await channels(link, cluster, { report: true, channel: name });
    if (!found) throw new Refused(404, 0, text.gone);
    return found;
  };
  let channel = await one();
  if (signal.aborted) return;
  /** @type {Target} */
  const target = { link, cluster, name, signal, changed: () => again(), left: () => go(to("streaming", [cluster])) };
  const sums = h("div");
  const messages = new MessageList({ link, cluster, channel: name, signal, from: Number(query.get("from")) || 0, moved: (from) => keepInAddress({ from: from ? String(from) : null }) });
  const subscriptions = new Table(inAddress(subscriptionTable(target, app.isReadOnly, () => channel), "subscriptions-"));
  const problem = h("div");
  replace(
    host,
    pageHead(foreign(name), {
      crumb: { href: to("streaming", [cluster]), label: text.back },
      sub: foreign(text.sub(cluster)),
      actions: app.isReadOnly ? [] : [action(target, "purge", text.purge, () => purge(target, channel)), action(target, "delete", text.remove, () => remove(target, channel))],
    }),
    problem,
    sums,
    card(text.subscriptions, { flush: true }, subscriptions.element),
    messages.element,
    onCommandLine(
      `headrace streaming report ${shellWord(name)} --server nats://HOST:4222 -cid ${cluster}`, `headrace streaming replay ${shellWord(name)} --server nats://HOST:4222 -cid ${cluster}`,
    ),
  );
  const again = poll({
    every: OFTEN,
    signal,
    ask: one,
    show: (found) => {
      channel = found;
      replace(problem);
      replace(sums, sumsOf(found));
      subscriptions.setRows(found.subscriptions ?? []);
      messages.setRange(found.msgs ? found.first_seq : 0, found.msgs ? found.last_seq : 0);
    },
    failed: (error) => replace(problem, failure(error)),
  });
}

/** @param {Channel} channel */
function sumsOf(channel) {
  const subscriptions = channel.subscriptions ?? [];
  const behind = Math.max(0, ...subscriptions.map((one) => channel.last_seq - one.last_sent));
  return figures(
    figure(text.figures.msgs, count(channel.msgs)),
    figure(text.figures.bytes, bytes(channel.bytes)),
    figure(text.figures.sequences, channel.msgs ? `${count(channel.first_seq)} – ${count(channel.last_seq)}` : "–"),
    figure(text.figures.subs, count(channel.subs_count)),
    figure(text.figures.pending, count(subscriptions.reduce((sum, one) => sum + one.pending_count, 0))),
    figure(text.figures.behind, subscriptions.length ? count(behind) : "–"),
  );
}

/**
 * An action of the channel, greyed out where the user may not ask for it.
 *
 * @param {Target} target
 * @param {import("../../nats/stan.js").Verb} verb
 * @param {string} label
 * @param {() => unknown} press
 */
function action({ link, cluster }, verb, label, press) {
  const subject = adminSubject(cluster, verb);
  return button(label, press, { kind: "danger small", disabled: () => (mayPublish(link, subject) ? false : text.mayNot(subject)) });
}

/**
 * @param {Target} target
 * @param {boolean} isReadOnly
 * @param {() => Channel} now the channel as it is
 * @returns {import("../../ui/table.js").TableOptions<Subscription>}
 */
function subscriptionTable(target, isReadOnly, now) {
  const { columns } = text;
  const behind = (/** @type {Subscription} */ one) => Math.max(0, now().last_seq - one.last_sent);
  const subject = adminSubject(target.cluster, "adopt");
  const whyNot = (/** @type {Subscription} */ one) => (mayPublish(target.link, subject) ? (one.is_offline ? false : text.adoptOnline) : text.mayNot(subject));
  return {
    name: "stan-subscriptions",
    label: text.subscriptions,
    key: (one) => JSON.stringify([one.client_id, one.durable_name, one.queue_name, now().subscriptions?.indexOf(one)]),
    sorted: ["pending", "down"],
    empty: () => empty(text.noSubscriptions, h("p", {}, text.noSubscriptionsNext)),
    columns: [
      { name: "client", label: columns.client, cell: (one) => foreign(one.client_id || "–"), sort: (one) => one.client_id },
      { name: "durable", label: columns.durable, cell: (one) => foreign(one.durable_name), sort: (one) => one.durable_name },
      { name: "queue", label: columns.queue, cell: (one) => foreign(one.queue_name), sort: (one) => one.queue_name },
      { name: "state", label: columns.state, cell: (one) => (one.is_offline ? status("idle", text.offline) : status("good", text.online)), sort: (one) => Number(one.is_offline) },
      { name: "pending", label: columns.pending, number: true, cell: (one) => count(one.pending_count), sort: (one) => one.pending_count },
      { name: "sent", label: columns.sent, number: true, cell: (one) => count(one.last_sent), sort: (one) => one.last_sent },
      { name: "behind", label: columns.behind, number: true, cell: (one) => count(behind(one)), sort: behind },
      ...(isReadOnly ? [] : [{
        name: "adopt", label: text.adopt,
        cell: (/** @type {Subscription} */ one) => (one.durable_name ? button(text.adopt, () => adopt(target, one), { kind: "small", disabled: () => whyNot(one) }) : ""),
      }]),
    ],
  };
}
