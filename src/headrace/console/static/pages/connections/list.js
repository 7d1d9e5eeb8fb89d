/** The connections that the page has: one page of them with rates, or those that a search through all found. */

import { Rates } from "../../data/series.js";
import { asDate } from "../../format.js";
import { PAGE, clientsOfAccount, clientsOfAll } from "../../nats/connections.js";
import { keyOf, wordsOf } from "./columns.js";
import { ORDERS, comparison } from "./orders.js";

/** @typedef {import("../../nats/connections.js").Client} Client */
/** @typedef {import("../../nats/connections.js").Offsets} Offsets */
/** @typedef {import("./columns.js").Row} Row */

/** A search stops when it has found so many. */
const MOST_FOUND = 512;

/** @typedef {{ words: string, rows: Row[], seen: number, isDone: boolean, isFull: boolean }} Found */

export class ClientList {
  /**
   * @param {import("../../app.js").App} app
   * @param {import("../../nats/link.js").Link} link
   * @param {{ isClosed: boolean, account?: string, user?: string, subject?: string, sort?: string, page: number }} options
   */
  constructor(app, link, options) {
    this.#app = app;
    this.#link = link;
    this.#options = options;
    this.#order = this.#orderOf(options.sort ?? "");
    this.page = options.page;
    this.#known = new Promise((resolve) => { this.#tell = resolve; });
  }

  /** @type {Row[]} */
  #rows = [];
  total = 0;
  servers = 0;
  page = 0;
  hasMore = false;
  /** @type {Found | null} */
  found = null;

  #app;
  #link;
  #options;
  #order = "cid";
  #rates = new Rates();
  /** Where each page begins, of those that are known. @type {(Offsets | null | undefined)[]} */
  #begins = [undefined];
  /** @type {Promise<void>} */
  #known;
  #tell = () => {};
  #isStopped = false;

  get rows() {
    return this.found ? this.found.rows : this.#rows;
  }

  /** The place of the first row of the page among all. */
  get first() {
    return this.page * PAGE;
  }

  /** Done when the first page is there. */
  whenKnown() {
    return this.#known;
  }

  /**
   * Have the servers sort by a column; false where the rows that are here do.
   * @param {string} column
   */
  orderBy(column) {
    const order = this.#orderOf(column);
    const isWhole = this.page === 0 && !this.hasMore;
    this.#order = order;
    if (isWhole || this.found) return false;
    this.page = 0;
    this.#begins = [undefined];
    return true;
  }

  /** Ask for the page again. A search that is shown stays as it is. */
  async ask() {
    if (this.found) return;
    while (this.#begins[this.page] === undefined && this.page > 0) await this.#learnBegins();
    const answer = await this.#pageAt(this.#begins[this.page] ?? undefined);
    if (this.found) return;
    this.#begins[this.page + 1] = answer.next;
    this.#rows = this.#withRates(answer.clients);
    this.#rates.keep(new Set(this.#rows.map(keyOf)));
    this.total = answer.total;
    this.servers = answer.servers;
    this.hasMore = answer.next !== null;
    this.#tell();
  }

  /**
   * Look through all connections, page after page.
   *
   * @param {string} words in lower case
   * @param {{ progress: () => void, signal: AbortSignal }} options
   */
  async search(words, { progress, signal }) {
    /** @type {Found} */
    const found = (this.found = { words, rows: [], seen: 0, isDone: false, isFull: false });
    this.#isStopped = false;
    let begin = /** @type {Offsets | null | undefined} */ (undefined);
    try {
      do {
        const answer = await this.#pageAt(begin ?? undefined);
        this.total = answer.total;
        found.seen += answer.clients.length;
        found.rows = [...found.rows, ...this.#withRates(answer.clients.filter((client) => wordsOf(client).toLowerCase().includes(words)))];
        found.isFull = found.rows.length >= MOST_FOUND;
        begin = answer.next;
        progress();
      } while (begin && !found.isFull && !this.#isStopped && !signal.aborted);
    } finally {
      found.isDone = true;
    }
    if (!signal.aborted) progress();
  }

  stopSearch() {
    this.#isStopped = true;
  }

  /** @param {string} column */
  #orderOf(column) {
    const order = ORDERS[column];
    if (order && (!order.closed || this.#options.isClosed)) return column;
    return this.#options.isClosed ? "stop" : "cid";
  }

  /** Ask for the last page whose beginning is known, which tells where the next one begins. */
  async #learnBegins() {
    const last = this.#begins.length - 1;
    const answer = await this.#pageAt(this.#begins[last] ?? undefined);
    if (answer.next) this.#begins[last + 1] = answer.next;
    else this.page = last;
  }

  /** @param {Offsets | undefined} begin */
  #pageAt(begin) {
    const { isClosed, account, user, subject } = this.#options;
    const isOperator = this.#link.role === "operator";
    const options = {
      sort: ORDERS[this.#order].option, state: /** @type {0 | 1} */ (isClosed ? 1 : 0), user: user || undefined, filter_subject: subject || undefined,
      acc: isOperator ? account || undefined : undefined,
    };
    const compare = comparison(this.#order);
    return isOperator
      ? clientsOfAll(this.#link, options, { offsets: begin, compare, expected: this.#app.watch.servers.size })
      : clientsOfAccount(this.#link, options, { offset: begin?.[""], compare });
  }

  /** @param {Client[]} clients @returns {Row[]} */
  #withRates(clients) {
    return clients.map((client) => {
      const { in_msgs, out_msgs, in_bytes, out_bytes } = client;
      const rates = client.stop ? null : this.#rates.of(keyOf(client), (asDate(client.now)?.getTime() ?? 0) / 1_000, { in_msgs, out_msgs, in_bytes, out_bytes });
      return { ...client, rates };
    });
  }
}
