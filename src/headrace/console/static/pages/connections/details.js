/** One connection in a panel: who it is, what goes over it, its subscriptions. */

import { to } from "../../app.js";
import { poll, OFTEN } from "../../data/poll.js";
import { Rates } from "../../data/series.js";
import { foreign, h, replace } from "../../dom/element.js";
import { asDate, brief, bytes, count, duration, goSeconds } from "../../format.js";
import { oneClient } from "../../nats/connections.js";
import { text } from "../../text/connections.js";
import { ago, button, card, facts, figure, figures, onCommandLine, shellWord, status, tag, when } from "../../ui/blocks.js";
import { openPanel } from "../../ui/dialog.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { addressOf, isConsole } from "./columns.js";
import { askToEnd, whyNot } from "./ending.js";

/** @typedef {import("../../nats/connections.js").Client} Client */
/** @typedef {import("../../nats/connections.js").Subscription} Subscription */
/** @typedef {import("../../app.js").App} App */
/** @typedef {import("../../nats/link.js").Link} Link */

/**
 * Open the panel of a connection; it follows the connection until it is closed.
 *
 * @param {App} app
 * @param {Link} link
 * @param {{ server: string, cid: number, closed: () => void, signal: AbortSignal }} options
 */
export function openDetails(app, link, { server, cid, closed, signal }) {
  const end = new AbortController();
  const title = h("span", {}, text.columns.cid, ` ${cid}`);
  const top = h("div", { class: "stack" });
  const table = subscriptionTable();
  const subscriptions = card(text.details.subscriptions, { flush: true }, table.element);
  const rates = new Rates();
  openPanel(title, { signal, closed: () => { end.abort(); closed(); } }, top, subscriptions);
  const refresh = poll({
    every: OFTEN,
    signal: end.signal,
    ask: () => oneClient(link, server, cid),
    show: (client) => {
      subscriptions.hidden = !client;
      if (!client) return replace(top, empty(text.details.gone, text.details.goneNext));
      const speed = rates.of("it", (asDate(client.now)?.getTime() ?? 0) / 1_000, { in: client.in_msgs, out: client.out_msgs });
      replace(title, foreign(client.name || client.mqtt_client || text.nameless));
      replace(top, ...parts(client, speed, app.isReadOnly || link.role !== "operator" ? null : link, { done: () => refresh(), signal }));
      table.setRows(client.subscriptions_list_detail ?? []);
      return undefined;
    },
    failed: (error) => replace(top, failure(error)),
  });
}

/**
 * @param {Client} client
 * @param {Record<string, number> | null} speed
 * @param {Link | null} operator null: nothing may be done
 * @param {{ done: () => void, signal: AbortSignal }} options
 */
function parts(client, speed, operator, options) {
  const words = text.details;
  const isOpen = !client.stop;
  const rate = (/** @type {string} */ name) => (speed ? text.perSecond(brief(speed[name])) : "–");
  return [
    h("div", { class: "row" }, isOpen ? status("good", words.open) : status("idle", words.closed), isConsole(client) && tag(text.console), isOpen && operator && actions(operator, client, options)),
    figures(
      figure(words.from, isOpen ? rate("in") : brief(client.in_msgs), { note: words.of(`${count(client.in_msgs)} · ${bytes(client.in_bytes)}`) }),
      figure(words.to, isOpen ? rate("out") : brief(client.out_msgs), { note: words.of(`${count(client.out_msgs)} · ${bytes(client.out_bytes)}`) }),
      isOpen && figure(words.pending, bytes(client.pending_bytes)),
      figure(words.subscriptions, count(client.subscriptions)),
    ),
    about(client),
    operator && isOpen && onCommandLine(`headrace server kick ${client.cid} ${shellWord(client.server.name)}`),
  ];
}

/**
 * @param {Link} operator
 * @param {Client} client
 * @param {{ done: () => void, signal: AbortSignal }} options
 */
function actions(operator, client, options) {
  return h(
    "div",
    { class: "buttons" },
    button(text.kick, () => askToEnd(operator, [client], "kick", options), { kind: "danger", disabled: () => whyNot(operator, [client], "kick") }),
    button(text.lame, () => askToEnd(operator, [client], "lame", options), { disabled: () => whyNot(operator, [client], "lame") }),
  );
}

/** @param {Client} client */
function about(client) {
  const words = text.details;
  const isOpen = !client.stop;
  const certificate = client.tls_peer_certs?.[0];
  const tls = client.tls_version ? `${client.tls_version}${client.tls_cipher_suite ? `, ${client.tls_cipher_suite}` : ""}` : words.noTls;
  return facts([
    [words.reason, isOpen ? null : foreign(client.reason)],
    [words.server, h("a", { href: to("server", [client.server.id]) }, foreign(client.server.name))],
    [words.user, client.authorized_user ? foreign(client.authorized_user) : null],
    [words.account, client.account ? foreign(client.name_tag && client.name_tag !== client.account ? `${client.name_tag} (${client.account})` : client.account) : null],
    [words.address, foreign(addressOf(client), "mono")],
    [words.kind, words.kinds[client.type ?? ""] ?? foreign(client.kind)],
    [words.client, client.lang ? foreign(`${client.lang} ${client.version ?? ""}`) : null],
    [words.mqtt, client.mqtt_client ? foreign(client.mqtt_client) : null],
    [words.start, when(client.start)],
    [words.stop, isOpen ? null : when(client.stop)],
    [words.uptime, duration(goSeconds(client.uptime))],
    [words.last, ago(client.last_activity)],
    [words.rtt, isOpen ? duration(goSeconds(client.rtt)) : null],
    [words.stalls, client.stalls ? count(client.stalls) : null],
    [words.tls, foreign(tls)],
    [words.certificate, certificate ? foreign(certificate.subject ?? certificate.cert_sha256, "mono") : null],
    [words.tags, client.tags?.length ? h("span", { class: "row" }, client.tags.map((one) => tag(foreign(one)))) : null],
    [words.nkey, client.nkey ? foreign(client.nkey, "mono") : null],
    [words.issuer, client.issuer_key ? foreign(client.issuer_key, "mono") : null],
  ]);
}

function subscriptionTable() {
  const words = text.details;
  return new Table({
    name: "connection-subscriptions",
    label: words.subscriptions,
    key: (/** @type {Subscription} */ row) => row.sid,
    words: (row) => `${row.subject} ${row.qgroup ?? ""}`,
    columns: [
      { name: "subject", label: words.subject, cell: (row) => foreign(row.subject, "mono"), sort: (row) => row.subject },
      { name: "queue", label: words.queue, cell: (row) => foreign(row.qgroup), sort: (row) => row.qgroup ?? null },
      { name: "messages", label: words.messages, cell: (row) => count(row.msgs), sort: (row) => row.msgs, number: true },
      { name: "max", label: words.max, cell: (row) => (row.max ? count(row.max) : "–"), sort: (row) => row.max ?? null, number: true, hidden: true },
    ],
    empty: () => empty(words.none, words.noneNext),
  });
}
