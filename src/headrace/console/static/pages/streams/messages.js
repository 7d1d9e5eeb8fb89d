/** The messages of a stream: a page of them newest first, what leads to another page, the search in the contents. */

import { to } from "../../app.js";
import { pageSize, readBackward, readRange } from "../../data/browse.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { storedMessage } from "../../nats/stored.js";
import { text } from "../../text/stream_messages.js";
import { ago, button, onCommandLine, shellWord, when } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { field, input } from "../../ui/fields.js";
import { payloadLine } from "../../ui/payload.js";
import { Table } from "../../ui/table.js";
import { openMessage, openSequence } from "./message.js";
import { momentOf } from "./moments.js";
import { SearchLine } from "./search.js";

/** @typedef {import("../../nats/jetstream.js").StoredMessage} StoredMessage */
/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("./one.js").StreamPlace} StreamPlace */

/**
 * @param {StreamPlace} stream
 * @returns {import("./one.js").Part}
 */
export function showMessages(stream) {
  const browser = new Browser(stream);
  replace(stream.host, browser.element, !stream.info.config.allow_direct && h("p", { class: "muted small" }, text.slow), onCommandLine(`headrace stream view ${shellWord(stream.name)} --reverse --limit 50`, `headrace stream get ${shellWord(stream.name)} 1`));
  return browser;
}

class Browser {
  /** @param {StreamPlace} stream */
  constructor(stream) {
    this.#stream = stream;
    const { query, signal } = stream.place;
    this.#subject = query.get("subject") ?? "";
    this.#top = Number(query.get("from")) || 0;
    this.#steps = h("div", { class: "buttons" });
    this.#range = h("span", { role: "status" });
    this.#table = messageTable({ open: (message) => this.#open(message), nothing: () => this.#nothing(), foot: [this.#range, this.#steps] });
    this.#search = new SearchLine(stream, {
      subject: () => this.#subject,
      began: () => this.#beginSearch(),
      found: (messages) => this.#table.setRows(messages),
      ended: () => this.#load(),
    });
    this.#body = h("div");
    this.element = h(
      "div",
      { class: "card" },
      h("div", { class: "table-tools messages-tools" }, this.#filterField(), this.#jumpForm(), this.#search.form),
      this.#search.line,
      this.#body,
    );
    replace(this.#body, this.#table.element);
    signal.addEventListener("abort", () => this.#reading.abort());
    const sequence = Number(query.get("seq"));
    if (sequence) void openSequence(stream, sequence, this.#panel()).catch((error) => this.#failed(error));
    if (query.get("find")) this.#search.start(query.get("find") ?? "");
    else void this.#load();
  }

  /** @type {StreamPlace} */
  #stream;
  /** The subjects that are shown; "" for all. */
  #subject = "";
  /** The newest sequence of the page; 0: the newest of the stream. */
  #top = 0;
  /** @type {StoredMessage[]} */
  #rows = [];
  /** @type {Table<StoredMessage>} */
  #table;
  /** @type {HTMLElement} */
  #steps;
  /** @type {HTMLElement} */
  #range;
  /** @type {HTMLElement} */
  #body;
  /** @type {SearchLine} */
  #search;
  #reading = new AbortController();
  #shownOf = -1;

  /** @param {StreamInfo} info */
  update(info) {
    const isNew = info.state.last_seq !== this.#shownOf || info.state.messages !== this.#stream.info.state.messages;
    this.#stream.info = info;
    if (isNew && !this.#top && !this.#search.isOn && !this.#reading.signal.aborted && this.#isIdle) void this.#load();
  }

  #isIdle = true;

  // -- reading -------------------------------------------------------------------------------------

  /** Read the page that ends with `#top`, or another one. @param {() => Promise<StoredMessage[]>} [read] */
  async #load(read = () => this.#pageBefore(this.#top ? this.#top + 1 : this.#stream.info.state.last_seq + 1)) {
    this.#reading.abort();
    const reading = (this.#reading = new AbortController());
    this.#isIdle = false;
    this.#shownOf = this.#stream.info.state.last_seq;
    try {
      const rows = await read();
      if (!reading.signal.aborted) this.#show(rows);
    } catch (error) {
      if (!reading.signal.aborted) this.#failed(error);
    } finally {
      if (reading === this.#reading) this.#isIdle = true;
    }
  }

  /** @param {number} before */
  #pageBefore(before) {
    const { link, info } = this.#stream;
    const { state } = info;
    return readBackward(link, info.config, { before, first: state.first_seq, count: pageSize(state), subject: this.#subject || undefined, signal: this.#reading.signal });
  }

  /** The messages from a sequence on, newest first. @param {number} from */
  async #pageFrom(from) {
    const { link, info } = this.#stream;
    const size = pageSize(info.state);
    const { found } = await readRange(link, info.config, { from, before: Infinity, most: size, subject: this.#subject || undefined, signal: this.#reading.signal });
    return found.slice(0, size).reverse();
  }

  /** @param {StoredMessage[]} rows */
  #show(rows) {
    this.#rows = rows;
    if (!this.#table.element.isConnected) replace(this.#body, this.#table.element);
    this.#table.setRows(rows);
    this.#range.textContent = rows.length ? text.range(count(rows[0].sequence), count(rows[rows.length - 1].sequence)) : "";
    this.#drawSteps();
  }

  /** @param {unknown} error */
  #failed(error) {
    replace(this.#body, failure(error, button(text.go, () => void this.#load())));
  }

  #nothing() {
    const { config, state } = this.#stream.info;
    if (this.#search.isOn) return empty(this.#search.words());
    if (!this.#isIdle && !this.#rows.length && state.messages) return null;
    if (this.#subject) return empty(text.nothing(this.#subject));
    if (state.messages) return empty(text.nothingOlder);
    return empty(text.none, h("p", {}, config.mirror ? text.noneMirror : foreign(text.noneNext((config.subjects ?? [config.name]).join(", ")))));
  }

  // -- where one is --------------------------------------------------------------------------------

  #drawSteps() {
    const { state } = this.#stream.info;
    const newest = this.#rows[0]?.sequence ?? 0;
    const oldest = this.#rows[this.#rows.length - 1]?.sequence ?? 0;
    const hasNewer = this.#top > 0 && newest < state.last_seq;
    const hasOlder = oldest > state.first_seq;
    /** @type {(label: string, isThere: boolean, read: (() => Promise<StoredMessage[]>) | null) => HTMLElement} */
    const step = (label, isThere, read) => button(label, () => void this.#go(read), { kind: "small", disabled: !isThere });
    replace(
      this.#steps,
      step(text.newest, this.#top > 0, null),
      step(text.newer, hasNewer, () => this.#pageFrom(newest + 1)),
      step(text.older, hasOlder, () => this.#pageBefore(oldest)),
      step(text.oldest, hasOlder, () => this.#pageFrom(state.first_seq)),
    );
  }

  /** Go to another page, which gets its address. @param {(() => Promise<StoredMessage[]>) | null} read null: the newest */
  async #go(read) {
    this.#top = 0;
    if (!read) {
      this.#remember();
      return this.#load();
    }
    return this.#load(async () => {
      const rows = await read();
      this.#top = rows[0]?.sequence ?? this.#top;
      this.#remember();
      return rows;
    });
  }

  #remember() {
    history.pushState(null, "", to("streams", [this.#stream.name, "messages"], { subject: this.#subject, from: this.#top || null, find: this.#search.typed }));
  }

  #filterField() {
    const typed = field(text.subject, input({ class: "mono", value: this.#subject, placeholder: text.subjectHint, type: "search" }));
    typed.control.addEventListener("change", () => {
      this.#subject = typed.value().trim();
      const top = this.#top;
      void this.#go(top ? () => this.#pageBefore(top + 1) : null);
    });
    return typed.element;
  }

  #jumpForm() {
    const typed = field(text.jump, input({ placeholder: text.jumpHint, title: text.jumpHint }));
    return h(
      "form",
      { class: "with-button", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void this.#jump(typed.value().trim(), typed.complain); } },
      typed.element,
      h("button", { class: "button", type: "submit" }, text.go),
    );
  }

  /**
   * @param {string} wanted
   * @param {(words: string) => void} complain
   */
  async #jump(wanted, complain) {
    if (/^\d{1,15}$/.test(wanted)) {
      const sequence = Number(wanted);
      return this.#go(() => this.#pageBefore(Math.min(sequence, this.#stream.info.state.last_seq) + 1));
    }
    const moment = momentOf(wanted);
    if (!moment) return complain(text.jumpWrong);
    const { link, info } = this.#stream;
    try {
      const message = await storedMessage(link, info.config, { start_time: moment.toISOString() });
      if (!message) return complain(text.jumpEmpty);
      return await this.#go(() => this.#pageFrom(message.sequence));
    } catch (error) {
      return this.#failed(error);
    }
  }

  // -- search, one message -------------------------------------------------------------------------

  #beginSearch() {
    this.#reading.abort();
    this.#rows = [];
    replace(this.#steps);
    this.#range.textContent = "";
    this.#remember();
    if (!this.#table.element.isConnected) replace(this.#body, this.#table.element);
    this.#table.setRows([]);
  }

  /** @param {StoredMessage} message */
  #open(message) {
    history.replaceState(null, "", to("streams", [this.#stream.name, "messages"], { subject: this.#subject, from: this.#top || null, find: this.#search.typed, seq: message.sequence }));
    openMessage(this.#stream, message, this.#panel());
  }

  /** What happens when the panel of a message is closed, or changed something. */
  #panel() {
    const { place, name, reload } = this.#stream;
    return {
      closed: () => {
        if (!place.signal.aborted) history.replaceState(null, "", to("streams", [name, "messages"], { subject: this.#subject, from: this.#top || null, find: this.#search.typed }));
      },
      changed: () => {
        reload();
        if (!this.#search.isOn) void this.#load();
      },
    };
  }
}

/**
 * @param {{ open: (message: StoredMessage) => void, nothing: () => import("../../dom/element.js").Child,
 *   foot: import("../../dom/element.js").Child[] }} options
 * @returns {Table<StoredMessage>}
 */
function messageTable({ open, nothing, foot }) {
  const names = text.columns;
  return new Table({
    name: "messages", label: text.table, key: (message) => String(message.sequence), open, empty: nothing, foot,
    json: (message) => ({ subject: message.subject, sequence: message.sequence, time: message.time, headers: message.headers, data: new TextDecoder().decode(message.data) }),
    columns: [
      { name: "sequence", label: names.sequence, number: true, cell: (message) => h("button", { class: "plain", type: "button", onclick: () => open(message) }, count(message.sequence)) },
      { name: "time", label: names.time, cell: (message) => when(message.time) },
      { name: "age", label: names.age, hidden: true, cell: (message) => ago(message.time) },
      { name: "subject", label: names.subject, cell: (message) => foreign(message.subject, "mono") },
      { name: "size", label: names.size, number: true, cell: (message) => bytes(message.data.length) },
      { name: "headers", label: names.headers, number: true, hidden: true, cell: (message) => count(message.headers.length) },
      { name: "payload", wide: true, label: names.payload, cell: (message) => payloadLine(message.data, 120) },
    ],
  });
}
