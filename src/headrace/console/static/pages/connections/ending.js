/** Closing connections, and telling clients that their server will stop: each is named before, and it waits. */

import { foreign } from "../../dom/element.js";
import { MOST_AT_ONCE, kick, lameDuck } from "../../nats/connections.js";
import { mayPublish } from "../../nats/rights.js";
import { text } from "../../text/connections.js";
import { explained } from "../../text/problems.js";
import { openDanger } from "../../ui/dialog.js";
import { addressOf, isConsole } from "./columns.js";

/** @typedef {import("../../nats/connections.js").Client} Client */
/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {"kick" | "lame"} Kind */

const SUBJECTS = { kick: "KICK", lame: "LDM" };

/**
 * Why connections cannot be closed or told, in words; "" where they can.
 *
 * @param {Link} link of an operator
 * @param {Client[]} clients
 * @param {Kind} kind
 */
export function whyNot(link, clients, kind) {
  if (clients.length > MOST_AT_ONCE) return text.tooMany(MOST_AT_ONCE);
  const forbidden = clients.map((client) => `$SYS.REQ.SERVER.${client.server.id}.${SUBJECTS[kind]}`).find((subject) => !mayPublish(link, subject));
  return forbidden ? text.mayNot(forbidden) : "";
}

/**
 * Ask, and then close the connections, or tell their clients.
 *
 * @param {Link} link of an operator
 * @param {Client[]} clients
 * @param {Kind} kind
 * @param {{ done: () => void, signal: AbortSignal }} options
 */
export function askToEnd(link, clients, kind, { done, signal }) {
  const words = kind === "kick" ? { title: text.kickTitle, lost: text.kickLost, doing: text.kickDoing, done: text.kickDone } : { title: text.lameTitle, lost: text.lameLost, doing: text.lameDoing, done: text.lameDone };
  const count = clients.length;
  openDanger({
    title: words.title(count),
    lost: [words.lost, ...clients.map((client) => foreign(named(client))), ...(clients.some(isConsole) ? [text.own] : [])],
    name: count === 1 ? String(clients[0].cid) : text.typed(count),
    verb: kind === "kick" ? (count === 1 ? text.kick : text.kickMany(count)) : count === 1 ? text.lame : text.lameMany(count),
    doing: words.doing(count),
    run: () => end(link, clients, kind).finally(done),
    done: words.done(count),
    signal,
  });
}

/** @param {Client} client */
function named(client) {
  const user = client.authorized_user || client.name_tag || client.account || "";
  return text.one(client.name || client.mqtt_client || text.nameless, client.cid, user, addressOf(client), client.server.name);
}

/**
 * Each in turn; those that fail do not stop the others. Raises: an error that says how many failed, and why the first.
 *
 * @param {Link} link
 * @param {Client[]} clients
 * @param {Kind} kind
 */
async function end(link, clients, kind) {
  /** @type {unknown[]} */
  const errors = [];
  for (const client of clients) {
    try {
      await (kind === "kick" ? kick : lameDuck)(link, client.server.id, client.cid);
    } catch (error) {
      errors.push(error);
    }
  }
  if (!errors.length) return;
  if (clients.length === 1) throw errors[0];
  const { title, detail } = explained(errors[0]);
  throw new Error(text.partly(errors.length, clients.length, detail ?? title));
}
