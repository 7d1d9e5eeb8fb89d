/** The columns of connections, open and closed, and what a connection is known by. */

import { to } from "../../app.js";
import { foreign, h } from "../../dom/element.js";
import { brief, bytes, count, duration, goSeconds } from "../../format.js";
import { text } from "../../text/connections.js";
import { ago } from "../../ui/blocks.js";
import { ORDERS } from "./orders.js";

/** @typedef {import("../../nats/connections.js").Client} Client */
/** @typedef {Client & { rates: Record<string, number> | null }} Row */
/** @typedef {import("../../ui/table.js").Column<Row>} Column */

/** @param {Client} client */
export function keyOf(client) {
  return `${client.server.id}/${client.cid}`;
}

/** What a filter looks in. @param {Client} client */
export function wordsOf(client) {
  return [client.cid, client.name, client.mqtt_client, client.authorized_user, client.account, client.name_tag, client.ip, client.port, client.lang, client.version, client.server.name, client.reason]
    .filter((word) => word !== undefined).join(" ");
}

/** @param {Client} client */
export function addressOf({ ip = "", port }) {
  return port ? `${ip.includes(":") ? `[${ip}]` : ip}:${port}` : ip;
}

/**
 * True if a connection is one of a tab with this console.
 * @param {Client} client
 */
export function isConsole(client) {
  return /^headrace console \((account|operator)\)$/.test(client.name ?? "");
}

/**
 * Those that are shown at first fit a window of 1280 points; the name has what they leave.
 * @param {{ isClosed: boolean, seesAccounts: boolean, isAlone: boolean }} options isAlone: there is one server
 * @returns {Column[]}
 */
export function columns({ isClosed, seesAccounts, isAlone }) {
  const { columns: labels, hints } = text;
  /** @type {(Column | false)[]} */
  const made = [
    { name: "name", label: labels.name, wide: true, cell: nameCell, sort: (row) => row.name || row.mqtt_client || null },
    { name: "user", label: labels.user, cell: (row) => foreign(row.authorized_user), sort: (row) => row.authorized_user },
    seesAccounts && { name: "account", label: labels.account, cell: (row) => foreign(row.name_tag || row.account), sort: (row) => row.name_tag || row.account },
    isClosed && { name: "reason", label: labels.reason, wide: true, cell: (row) => foreign(row.reason), sort: (row) => row.reason },
    isClosed && { name: "stop", label: labels.stop, cell: (row) => ago(row.stop), sort: ORDERS.stop.value, number: true },
    { name: "address", label: labels.address, cell: (row) => foreign(addressOf(row), "mono"), sort: addressOf },
    { name: "client", label: labels.client, cell: (row) => foreign([row.lang, row.version].filter(Boolean).join(" ")), sort: (row) => `${row.lang} ${row.version}`, hidden: seesAccounts },
    { name: "server", label: labels.server, cell: (row) => foreign(row.server.name), sort: (row) => row.server.name, hidden: isAlone },
    { name: "subs", label: labels.subs, cell: (row) => count(row.subscriptions), sort: ORDERS.subs.value, number: true, hidden: isClosed },
    !isClosed && { name: "pending", label: labels.pending, hint: hints.pending, cell: (row) => bytes(row.pending_bytes), sort: ORDERS.pending.value, number: true },
    !isClosed && { name: "fromRate", label: labels.fromRate, hint: hints.fromRate, cell: (row) => rate(row, "in_msgs"), sort: (row) => row.rates?.in_msgs ?? null, number: true },
    !isClosed && { name: "toRate", label: labels.toRate, hint: hints.toRate, cell: (row) => rate(row, "out_msgs"), sort: (row) => row.rates?.out_msgs ?? null, number: true },
    { name: "from", label: labels.from, cell: (row) => count(row.in_msgs), sort: ORDERS.from.value, number: true, hidden: true },
    { name: "to", label: labels.to, cell: (row) => count(row.out_msgs), sort: ORDERS.to.value, number: true, hidden: true },
    { name: "bytesFrom", label: labels.bytesFrom, cell: (row) => bytes(row.in_bytes), sort: ORDERS.bytesFrom.value, number: true, hidden: !isClosed },
    { name: "bytesTo", label: labels.bytesTo, cell: (row) => bytes(row.out_bytes), sort: ORDERS.bytesTo.value, number: true, hidden: !isClosed },
    !isClosed && { name: "rtt", label: labels.rtt, cell: (row) => duration(goSeconds(row.rtt)), sort: ORDERS.rtt.value, number: true, hidden: !isAlone },
    !isClosed && { name: "idle", label: labels.idle, hint: hints.idle, cell: (row) => duration(goSeconds(row.idle)), sort: ORDERS.idle.value, number: true },
    { name: "uptime", label: labels.uptime, cell: (row) => duration(goSeconds(row.uptime)), sort: (row) => goSeconds(row.uptime), number: true, hidden: true },
    { name: "cid", label: labels.cid, cell: (row) => String(row.cid), sort: (row) => row.cid, number: true, hidden: true },
  ];
  return made.filter((column) => column !== false);
}

/** @param {Row} row */
function nameCell(row) {
  const name = row.name || row.mqtt_client;
  return h("a", { href: to("connections", [row.server.id, String(row.cid)]), class: name ? "" : "muted", "data-details": true }, name ? foreign(name) : text.nameless);
}

/**
 * @param {Row} row
 * @param {string} name
 */
function rate(row, name) {
  return row.rates ? text.perSecond(brief(row.rates[name])) : "–";
}
