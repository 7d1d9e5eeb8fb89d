/** The channels of a cluster ID, and the clients that subscribe to them. */

import { to } from "../../app.js";
import { KEPT, OFTEN, SELDOM, poll } from "../../data/poll.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { channels } from "../../nats/stan.js";
import { text } from "../../text/streaming.js";
import { ago, card, onCommandLine, pageHead, status, tabs, when } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";
import { changeButton } from "../streaming.js";

/** @typedef {import("../index.js").Place} Place */
/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/stan.js").Channel} Channel */
/** @typedef {{ id: string, channels: number, subscriptions: number, pending: number, offline: number }} Client */

const MANY = 1_000;

/**
 * @param {Place} place
 * @param {Link} link
 * @param {string} cluster
 */
export function showLists({ host, query, signal, go }, link, cluster) {
  const isClients = query.get("tab") === "clients";
  const box = h("div");
  const table = isClients ? new Table(inAddress(clientTable())) : new Table(inAddress(channelTable(cluster, go)));
  replace(
    host,
    pageHead("Streaming", { sub: foreign(text.sub(cluster)), actions: [changeButton(go)] }),
    tabs([
      { href: to("streaming", [cluster]), label: text.tabs.channels, current: !isClients },
      { href: to("streaming", [cluster], { tab: "clients" }), label: text.tabs.clients, current: isClients },
    ]),
    box,
    isClients && h("p", { class: "muted small" }, text.clientsNote),
    onCommandLine(`headrace streaming ${isClients ? "report" : "channels"} --server nats://HOST:4222 -cid ${cluster}`),
  );
  poll({
    every: (answer) => ((answer?.length ?? 0) > MANY || isClients ? SELDOM : OFTEN),
    signal,
    ask: () => channels(link, cluster, { report: isClients }),
    show: (found) => {
      if (!table.element.isConnected) replace(box, card("", { flush: true }, table.element));
      if (isClients) /** @type {Table<Client>} */ (table).setRows(clientsOf(found));
      else /** @type {Table<Channel>} */ (table).setRows(found);
    },
    failed: (error) => {
      if (!table.element.isConnected) return replace(box, failure(error));
      return KEPT;
    },
  });
}

/**
 * @param {string} cluster
 * @param {(href: string) => void} go
 * @returns {import("../../ui/table.js").TableOptions<Channel>}
 */
function channelTable(cluster, go) {
  const { columns } = text;
  return {
    name: "stan-channels",
    label: text.tabs.channels,
    key: (channel) => channel.name,
    words: (channel) => channel.name,
    sorted: ["name", "up"],
    open: (channel) => go(to("streaming", [cluster, channel.name])),
    empty: () => empty(text.noChannels, h("p", {}, text.noChannelsNext)),
    columns: [
      { name: "name", label: columns.name, cell: (channel) => h("a", { href: to("streaming", [cluster, channel.name]) }, foreign(channel.name)), sort: (channel) => channel.name },
      { name: "msgs", label: columns.msgs, number: true, cell: (channel) => count(channel.msgs), sort: (channel) => channel.msgs },
      { name: "bytes", label: columns.bytes, number: true, cell: (channel) => bytes(channel.bytes), sort: (channel) => channel.bytes },
      { name: "subs", label: columns.subs, number: true, cell: (channel) => count(channel.subs_count), sort: (channel) => channel.subs_count },
      { name: "first", label: columns.first, number: true, hidden: true, cell: (channel) => count(channel.first_seq), sort: (channel) => channel.first_seq },
      { name: "last", label: columns.last, number: true, cell: (channel) => count(channel.last_seq), sort: (channel) => channel.last_seq },
      { name: "lastTime", label: columns.lastTime, number: true, cell: (channel) => ago(channel.last_time), sort: (channel) => channel.last_time },
      { name: "damaged", label: columns.damaged, number: true, cell: (channel) => (channel.damaged ? status("bad", count(channel.damaged)) : "0"), sort: (channel) => channel.damaged },
      { name: "created", label: columns.created, hidden: true, cell: (channel) => when(channel.created), sort: (channel) => channel.created },
    ],
  };
}

/** @returns {import("../../ui/table.js").TableOptions<Client>} */
function clientTable() {
  const { columns } = text;
  return {
    name: "stan-clients",
    label: text.tabs.clients,
    key: (client) => client.id,
    words: (client) => client.id,
    sorted: ["pending", "down"],
    empty: () => empty(text.noClients, h("p", {}, text.noClientsNext)),
    columns: [
      { name: "id", label: columns.client, cell: (client) => (client.id ? foreign(client.id) : "–"), sort: (client) => client.id },
      { name: "channels", label: columns.channels, number: true, cell: (client) => count(client.channels), sort: (client) => client.channels },
      { name: "subscriptions", label: columns.subs, number: true, cell: (client) => count(client.subscriptions), sort: (client) => client.subscriptions },
      { name: "pending", label: columns.pending, number: true, cell: (client) => count(client.pending), sort: (client) => client.pending },
      { name: "offline", label: columns.offline, number: true, cell: (client) => (client.offline ? status("idle", count(client.offline)) : "0"), sort: (client) => client.offline },
    ],
  };
}

/**
 * @param {Channel[]} found
 * @returns {Client[]}
 */
function clientsOf(found) {
  /** @type {Map<string, Client>} */
  const clients = new Map();
  for (const { subscriptions = [] } of found) {
    const here = new Set();
    for (const one of subscriptions) {
      const client = clients.get(one.client_id) ?? { id: one.client_id, channels: 0, subscriptions: 0, pending: 0, offline: 0 };
      clients.set(one.client_id, client);
      client.subscriptions += 1;
      client.pending += one.pending_count;
      client.offline += one.is_offline ? 1 : 0;
      if (!here.has(one.client_id)) client.channels += 1;
      here.add(one.client_id);
    }
  }
  return [...clients.values()];
}
