/**
 * Connections: one row a client, of all servers for an operator, of its own account for anybody else; open ones with
 * what goes over them, closed ones with the reason. A page of them at a time, in the servers' own order.
 */

import { to } from "../app.js";
import { OFTEN, SELDOM, poll } from "../data/poll.js";
import { h, replace } from "../dom/element.js";
import { count } from "../format.js";
import { NoRight } from "../nats/errors.js";
import { text as common } from "../text/common.js";
import { text } from "../text/connections.js";
import { button, card, choice, linkButton, onCommandLine, pageHead } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { Table } from "../ui/table.js";
import { columns, keyOf, wordsOf } from "./connections/columns.js";
import { askToEnd, whyNot } from "./connections/ending.js";
import { commands } from "./connections/commands.js";
import { openDetails } from "./connections/details.js";
import { filterFields } from "./connections/filters.js";
import { ClientList } from "./connections/list.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("./connections/columns.js").Row} Row */

/** A list of more is asked for again less often. */
const LONG = 1_000;
/** What a user has no right to is asked for again by hand, or after so long, ms. */
const FORBIDDEN = 600_000;

/** @param {Place} place */
export function show(place) {
  const link = place.app.operator ?? place.app.account;
  if (link) new ConnectionsPage(place, link).start();
}

class ConnectionsPage {
  /**
   * @param {Place} place
   * @param {Link} link
   */
  constructor(place, link) {
    this.#place = place;
    this.#link = link;
    this.#asked = Object.fromEntries(place.query);
    this.#isClosed = this.#asked.state === "closed";
    this.#isOperator = link.role === "operator";
    this.#canEnd = this.#isOperator && !this.#isClosed && !place.app.isReadOnly;
    const { account, user, subject, sort, page } = this.#asked;
    this.#list = new ClientList(place.app, link, { isClosed: this.#isClosed, account, user, subject, sort, page: Number(page) || 0 });
    this.#table = this.#makeTable();
    this.#card = card(null, { flush: true }, this.#table.element);
  }

  #place;
  #link;
  /** What the address asks for: state, account, user, subject, sort, direction, page, find. @type {Record<string, string | undefined>} */
  #asked;
  #isClosed;
  #isOperator;
  #canEnd;
  #list;
  /** @type {Table<Row>} */
  #table;
  #card;
  #isForbidden = false;
  #head = h("div");
  #problem = h("div", { hidden: true });
  #ending = h("div", { class: "buttons end" });
  #pages = h("div", { class: "row" });
  #note = h("div", { class: "row muted", role: "status" });
  #refresh = () => {};

  start() {
    const { host, path, signal } = this.#place;
    const { sort, account, user, subject, find } = this.#asked;
    replace(this.#head, pageHead(text.title));
    replace(
      host,
      this.#head,
      this.#problem,
      this.#note,
      this.#card,
      onCommandLine(...commands({ isOperator: this.#isOperator, isClosed: this.#isClosed, sort, account, user, subject })),
    );
    this.#refresh = poll({
      every: () => (this.#isForbidden ? FORBIDDEN : this.#list.total > LONG ? SELDOM : OFTEN),
      signal,
      ask: () => this.#list.ask(),
      show: () => this.#draw(),
      failed: (error) => this.#fail(error),
    });
    if (path.length === 2) this.#showDetails(path[0], Number(path[1]));
    if (find) void this.#list.whenKnown().then(() => (this.#list.hasMore ? this.#search() : undefined));
  }

  /**
   * @param {Record<string, string | undefined>} [changes]
   * @param {string[]} [parts]
   */
  #address(changes = {}, parts = []) {
    return to("connections", parts, { ...this.#asked, ...changes });
  }

  #makeTable() {
    const { state, sort, direction, find } = this.#asked;
    const { app, go, query } = this.#place;
    /** @type {Table<Row>} */
    const table = new Table({
      name: this.#isClosed ? "connections-closed" : "connections",
      label: text.label,
      columns: columns({ isClosed: this.#isClosed, seesAccounts: this.#isOperator, isAlone: app.watch.servers.size < 2 }),
      key: keyOf,
      words: wordsOf,
      filter: find,
      json: ({ rates: _rates, ...client }) => client,
      sorted: sort ? [sort, direction === "up" ? "up" : "down"] : this.#isClosed ? ["stop", "down"] : ["cid", "up"],
      arranged: (column, towards) => this.#arrange(column, towards),
      filtered: (typed) => this.#filterBy(typed),
      open: (row) => this.#open(row.server.id, row.cid),
      pick: this.#canEnd,
      picked: () => this.#drawEnding(),
      tools: [
        choice(text.which, [["open", text.open], ["closed", text.closed]], this.#isClosed ? "closed" : "open", (chosen) => go(this.#address({ state: chosen === "closed" ? chosen : undefined, subject: undefined, sort: undefined, direction: undefined, page: undefined }))),
        ...filterFields({ query, isOperator: this.#isOperator, change: (changes) => go(this.#address({ ...changes, page: undefined })) }),
        this.#ending,
      ],
      foot: [this.#pages],
      empty: () => this.#nothing(state),
    });
    table.element.addEventListener("click", (event) => this.#onLink(event));
    return table;
  }

  /** @param {string | undefined} state */
  #nothing(state) {
    const { account, user, subject } = this.#asked;
    if (account || user || subject) return empty(text.noneFiltered, text.noneFilteredNext, linkButton(text.clearFilters, to("connections", [], { state })));
    return this.#isClosed ? empty(text.noneClosed, text.noneClosedNext) : empty(text.none, text.noneNext);
  }

  // -- order and pages -----------------------------------------------------------------------------

  /**
   * @param {string} column
   * @param {"up" | "down"} direction
   */
  #arrange(column, direction) {
    Object.assign(this.#asked, { sort: column, direction, page: undefined });
    history.replaceState(null, "", this.#address());
    if (this.#list.orderBy(column)) this.#refresh();
  }

  /** @param {string} typed */
  #filterBy(typed) {
    this.#asked.find = typed.trim() || undefined;
    history.replaceState(null, "", this.#address());
  }

  /** @param {number} step */
  #turn(step) {
    this.#list.page += step;
    this.#asked.page = this.#list.page ? String(this.#list.page) : undefined;
    history.pushState(null, "", this.#address());
    /** @type {HTMLElement} */ (this.#table.element.querySelector(".table-box")).scrollTop = 0;
    this.#refresh();
  }

  async #search() {
    const words = this.#table.filter || (this.#asked.find ?? "").trim().toLowerCase();
    if (!words) {
      /** @type {HTMLElement | null} */ (this.#table.element.querySelector("input[type=search]"))?.focus();
      return;
    }
    this.#asked.find = words;
    history.replaceState(null, "", this.#address());
    try {
      await this.#list.search(words, { progress: () => this.#draw(), signal: this.#place.signal });
    } catch (error) {
      this.#fail(error);
    }
  }

  // -- details -------------------------------------------------------------------------------------

  /**
   * The link of a row opens its details here, as the row does; with a key held down the browser does what it does.
   * @param {MouseEvent} event
   */
  #onLink(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = /** @type {Element} */ (event.target).closest("a[data-details]");
    const [server, cid] = /** @type {HTMLElement | null} */ (link?.closest("tr"))?.dataset.key?.split("/") ?? [];
    if (!link || !server) return;
    event.preventDefault();
    this.#open(server, Number(cid));
  }

  /**
   * @param {string} server
   * @param {number} cid
   */
  #open(server, cid) {
    history.pushState(null, "", this.#address({}, [server, String(cid)]));
    this.#showDetails(server, cid);
  }

  /**
   * @param {string} server
   * @param {number} cid
   */
  #showDetails(server, cid) {
    const { app, signal } = this.#place;
    const closed = () => {
      if (signal.aborted) return;
      history.replaceState(null, "", this.#address());
      this.#refresh();
    };
    openDetails(app, this.#link, { server, cid, signal, closed });
  }

  // -- drawing -------------------------------------------------------------------------------------

  #draw() {
    const { rows, found, total, servers } = this.#list;
    this.#problem.hidden = true;
    this.#card.hidden = false;
    this.#isForbidden = false;
    this.#table.setRows(rows, found ? undefined : total);
    const sub = this.#isOperator ? text.sub(count(total), servers) : text.subAccount(count(total), this.#link.who.account || common.yourAccount);
    replace(this.#head, pageHead(text.title, { sub }));
    this.#drawPages();
    this.#drawNote();
    this.#drawEnding();
  }

  #drawPages() {
    const { found, page, hasMore, first, rows, total } = this.#list;
    if (found || (page === 0 && !hasMore)) return replace(this.#pages);
    return replace(
      this.#pages,
      h("span", {}, text.page(count(first + 1), count(first + rows.length), count(total))),
      button(text.before, () => this.#turn(-1), { kind: "small", disabled: page === 0 }),
      button(text.after, () => this.#turn(1), { kind: "small", disabled: !hasMore }),
    );
  }

  #drawNote() {
    const { found, total, page, hasMore } = this.#list;
    if (found) {
      const hits = count(found.rows.length);
      const words = found.isDone ? text.searched(found.words, count(found.seen), hits) : text.searching(count(found.seen), count(total), hits);
      const next = found.isDone
        ? button(text.toPages, () => this.#place.go(this.#address({ find: undefined, page: undefined })), { kind: "small" })
        : button(text.stop, () => this.#list.stopSearch(), { kind: "small" });
      return replace(this.#note, words, found.isFull && text.searchFull(hits), next);
    }
    if (hasMore || page > 0) return replace(this.#note, button(text.searchAll(count(total)), () => void this.#search(), { kind: "small", icon: "search", title: text.searchHint }));
    return replace(this.#note, !this.#isOperator && text.noKick);
  }

  #drawEnding() {
    const picked = this.#table.picks;
    if (!this.#canEnd || !picked.length) return replace(this.#ending);
    const options = { done: () => { this.#table.unpick(); this.#refresh(); }, signal: this.#place.signal };
    return replace(
      this.#ending,
      button(text.kickMany(picked.length), () => askToEnd(this.#link, this.#table.picks, "kick", options), { kind: "danger", disabled: () => whyNot(this.#link, picked, "kick") }),
      button(text.lameMany(picked.length), () => askToEnd(this.#link, this.#table.picks, "lame", options), { disabled: () => whyNot(this.#link, picked, "lame") }),
    );
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#isForbidden = error instanceof NoRight;
    this.#problem.hidden = false;
    this.#card.hidden = this.#list.rows.length === 0;
    replace(this.#problem, failure(error, button(text.again, () => this.#refresh())));
  }
}
