/** Three short tables: the consumers that are behind, the streams that grow, the connections that lag. */

import { to } from "../../app.js";
import { poll, SELDOM } from "../../data/poll.js";
import { Rates } from "../../data/series.js";
import { foreign, h, replace } from "../../dom/element.js";
import { brief, byteRate, bytes, count } from "../../format.js";
import { everyServer } from "../../nats/system.js";
import { text } from "../../text/overview.js";
import { card } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";

/** @typedef {import("../../data/activity.js").Activity} Activity */
/** @typedef {{ name?: string, cid: number, ip?: string, port?: number, pending_bytes: number, account?: string }} Connection */

const ROWS = 5;

export class Most {
  /**
   * @param {import("../../app.js").App} app
   * @param {AbortSignal} signal
   */
  constructor(app, signal) {
    this.#isOperator = Boolean(app.operator);
    this.#account = app.account?.who.account ?? null;
    this.element = h(
      "div",
      { class: "grid" },
      card(text.consumersByLag, { actions: [allOf("consumers")], flush: true }, this.#consumers),
      card(text.streamsByGrowth, { actions: [allOf("streams")], flush: true }, this.#streams),
      this.#isOperator && card(text.connectionsByPending, { actions: [allOf("connections")], flush: true }, this.#connections),
    );
    const { operator } = app;
    if (operator) {
      poll({
        every: SELDOM / 2,
        signal,
        ask: () => /** @type {Promise<import("../../nats/system.js").FromServer<{ connections: Connection[] | null }>[]>} */ (everyServer(operator, "CONNZ", { sort: "pending", limit: ROWS, auth: true })),
        show: (answers) => this.#showConnections(answers.flatMap(({ server, data }) => (data?.connections ?? []).map((one) => ({ ...one, server: server.id })))),
        failed: (error) => replace(this.#connections, failure(error)),
      });
    }
  }

  #isOperator;
  /** The account whose pages can be opened. @type {string | null} */
  #account;
  #consumers = shortTable(text.consumersByLag);
  #streams = shortTable(text.streamsByGrowth);
  #connections = shortTable(text.connectionsByPending);
  #rates = new Rates();

  /** @param {Activity} activity */
  show(activity) {
    this.#showConsumers(activity);
    this.#showStreams(activity);
  }

  /** @param {unknown} error */
  fail(error) {
    replace(this.#consumers, failure(error));
    replace(this.#streams, failure(error));
  }

  /** @param {Activity} activity */
  #showConsumers({ consumers, total, isWhole }) {
    if (!consumers.length) return replace(this.#consumers, empty(isWhole || !total ? text.noConsumers : text.tooMany(count(total))));
    const rows = [...consumers].sort((a, b) => b.unprocessed - a.unprocessed).slice(0, ROWS);
    return replace(
      this.#consumers,
      table(
        [text.consumer, text.stream, this.#isOperator ? text.account : null, text.lag, text.unacked],
        rows.map((one) => [
          this.#link(one.account, to("consumers", [one.stream, one.name]), one.name),
          this.#link(one.account, to("streams", [one.stream]), one.stream),
          this.#isOperator ? foreign(one.account) : null,
          brief(one.unprocessed),
          brief(one.unacked),
        ]),
      ),
    );
  }

  /** @param {Activity} activity */
  #showStreams({ streams, total, isWhole }) {
    if (!streams.length) return replace(this.#streams, empty(isWhole || !total ? text.noStreams : text.tooMany(count(total))));
    const now = Date.now() / 1000;
    const rows = streams
      .map((one) => ({ ...one, growth: this.#rates.of(`${one.account}\n${one.stream}`, now, { messages: one.lastSequence, bytes: one.bytes })?.bytes ?? null }))
      .sort((a, b) => (b.growth ?? 0) - (a.growth ?? 0) || b.bytes - a.bytes)
      .slice(0, ROWS);
    return replace(
      this.#streams,
      table(
        [text.stream, this.#isOperator ? text.account : null, text.growth, text.size],
        rows.map((one) => [this.#link(one.account, to("streams", [one.stream]), one.stream), this.#isOperator ? foreign(one.account) : null, byteRate(one.growth), bytes(one.bytes)]),
      ),
    );
  }

  /** @param {(Connection & { server: string })[]} connections */
  #showConnections(connections) {
    const rows = connections.sort((a, b) => b.pending_bytes - a.pending_bytes).slice(0, ROWS);
    if (!rows.length) return replace(this.#connections, empty(text.noConnections));
    return replace(
      this.#connections,
      table(
        [text.connection, text.account, text.pending],
        rows.map((one) => [h("a", { href: to("connections", [one.server, String(one.cid)]) }, foreign(one.name || `${one.ip}:${one.port}`)), foreign(one.account ?? ""), bytes(one.pending_bytes)]),
      ),
    );
  }

  /**
   * A link to what an account has; of an account without a login the name alone.
   * @param {string} account
   * @param {string} href
   * @param {string} name
   */
  #link(account, href, name) {
    return account === this.#account ? h("a", { href }, foreign(name)) : foreign(name);
  }
}

/**
 * The place of a short table; it scrolls, so that it can be reached by keys.
 * @param {string} label
 */
function shortTable(label) {
  return h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": label });
}

/** @param {string} page */
function allOf(page) {
  return h("a", { href: to(page), class: "small" }, text.all);
}

/**
 * A short table; columns from the third last on are numbers where their cells are texts. A heading of null leaves its
 * column out.
 *
 * @param {(string | null)[]} heads
 * @param {(Node | string | null)[][]} rows
 */
function table(heads, rows) {
  const isNumber = (/** @type {number} */ column) => typeof rows[0][column] === "string";
  return h(
    "table",
    { class: "table short" },
    h("thead", {}, h("tr", {}, heads.map((head, column) => head !== null && h("th", { scope: "col", class: isNumber(column) ? "number" : "" }, head)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, column) => heads[column] !== null && h("td", { class: isNumber(column) ? "number" : "" }, cell))))),
  );
}
