/** The users of an account, as far as their connections tell them. */

import { to } from "../../app.js";
import { SELDOM, poll } from "../../data/poll.js";
import { foreign, h, replace } from "../../dom/element.js";
import { asDate, count } from "../../format.js";
import { PAGE, clientsOfAll } from "../../nats/connections.js";
import { text } from "../../text/accounts.js";
import { ago, card } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";

/** @typedef {import("../../nats/connections.js").Client} Client */
/** @typedef {{ user: string, connections: number, clients: string[], last: number }} User */

/** So many pages of connections are looked through for users. */
const PAGES = 8;

/**
 * @param {import("../index.js").Place} place
 * @param {import("../../nats/link.js").Link} link
 * @param {{ name: string, body: HTMLElement }} options
 */
export function showUsers({ app, signal }, link, { name, body }) {
  const note = h("p", { class: "muted" });
  const table = userTable(name);
  replace(body, h("p", { class: "muted" }, text.usersSub), card(text.users, { flush: true }, table.element), note);
  poll({
    every: SELDOM,
    signal,
    ask: () => connected(link, name, app.watch.servers.size, signal),
    show: ({ clients, total }) => {
      table.setRows(usersOf(clients));
      replace(note, clients.length < total && text.usersPart(count(clients.length), count(total)));
    },
    failed: (error) => replace(body, failure(error)),
  });
}

/**
 * The connections of an account, the first `PAGES` pages of them.
 *
 * @param {import("../../nats/link.js").Link} link
 * @param {string} account
 * @param {number} expected servers
 * @param {AbortSignal} signal
 */
async function connected(link, account, expected, signal) {
  const clients = /** @type {Client[]} */ ([]);
  let total = 0;
  let offsets = /** @type {import("../../nats/connections.js").Offsets | null | undefined} */ (undefined);
  for (let page = 0; page < PAGES && offsets !== null && !signal.aborted; page += 1) {
    const answer = await clientsOfAll(link, { acc: account, sort: "cid" }, { offsets, expected, compare: (a, b) => a.cid - b.cid });
    clients.push(...answer.clients);
    total = answer.total;
    offsets = answer.next;
    if (answer.clients.length < PAGE) break;
  }
  return { clients, total };
}

/**
 * @param {Client[]} clients
 * @returns {User[]}
 */
function usersOf(clients) {
  /** @type {Map<string, User>} */
  const users = new Map();
  for (const client of clients) {
    const key = client.authorized_user ?? "";
    const user = users.get(key) ?? { user: key, connections: 0, clients: [], last: 0 };
    user.connections += 1;
    if (client.lang && !user.clients.includes(client.lang)) user.clients.push(client.lang);
    user.last = Math.max(user.last, asDate(client.last_activity)?.getTime() ?? 0);
    users.set(key, user);
  }
  return [...users.values()];
}

/** @param {string} account @returns {Table<User>} */
function userTable(account) {
  const names = text.user;
  return new Table(inAddress({
    name: "account-users", label: text.users, key: (row) => row.user, words: (row) => row.user, sorted: ["connections", "down"],
    columns: [
      { name: "name", label: names.name, cell: (row) => h("a", { href: to("connections", [], { account, user: row.user }) }, row.user ? foreign(row.user) : text.nameless), sort: (row) => row.user },
      { name: "connections", label: names.connections, cell: (row) => count(row.connections), sort: (row) => row.connections, number: true },
      { name: "clients", label: names.clients, cell: (row) => foreign(row.clients.join(", ")), sort: (row) => row.clients.join(", ") },
      { name: "last", label: names.last, cell: (row) => ago(row.last), sort: (row) => row.last, number: true },
    ],
    empty: () => empty(text.noUsers),
  }));
}
