/** The stored messages of a channel, a page at a time, newest first. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { replay } from "../../nats/stan.js";
import { text } from "../../text/streaming.js";
import { button, card, facts, when } from "../../ui/blocks.js";
import { openPanel } from "../../ui/dialog.js";
import { empty, failure } from "../../ui/empty.js";
import { input } from "../../ui/fields.js";
import { payloadLine, payloadView } from "../../ui/payload.js";
import { Table } from "../../ui/table.js";

/** @typedef {import("../../nats/jetstream.js").StoredMessage} StoredMessage */

const PAGE = 50;

export class MessageList {
  /**
   * @param {{ link: import("../../nats/link.js").Link, cluster: string, channel: string, signal: AbortSignal, from: number, moved: (from: number | undefined) => void }} options
   *   `from`: the lowest sequence of the page, 0: the newest ones
   */
  constructor(options) {
    this.#options = options;
    this.#from = options.from;
    this.#table = new Table({
      name: "stan-messages",
      label: text.messages,
      key: (message) => String(message.sequence),
      words: (message) => new TextDecoder().decode(message.data.subarray(0, 4_096)),
      open: (message) => this.#open(message),
      json: (message) => ({ ...message, data: new TextDecoder().decode(message.data) }),
      empty: () => empty(this.#last ? text.noneBelow : text.noMessages),
      columns: [
        { name: "sequence", label: text.columns.sequence, cell: (message) => count(message.sequence), sort: (message) => message.sequence },
        { name: "time", label: text.columns.time, cell: (message) => when(message.time), sort: (message) => message.time },
        { name: "size", label: text.columns.size, number: true, cell: (message) => bytes(message.data.length), sort: (message) => message.data.length },
        { name: "payload", wide: true, label: text.columns.payload, cell: (message) => payloadLine(message.data) },
      ],
      sorted: ["sequence", "down"],
    });
    this.#box = h("div", {}, this.#table.element);
    this.#place = h("span", { class: "muted" });
    const wanted = input({ class: "short", name: "from", inputmode: "numeric", "aria-label": text.from, placeholder: text.from });
    this.element = card(
      text.messages,
      {
        flush: true,
        actions: [
          this.#place,
          h("form", { class: "row", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.#jump(wanted); } }, wanted, h("button", { class: "button small", type: "submit" }, text.go)),
          button(text.older, () => this.#move(-PAGE), { kind: "small" }),
          button(text.newer, () => this.#move(PAGE), { kind: "small" }),
          button(text.newest, () => this.#goTo(0), { kind: "small" }),
        ],
      },
      this.#box,
    );
  }

  #options;
  #from;
  #first = 0;
  #last = 0;
  #isAsking = false;
  #shown = "";
  /** @type {Table<StoredMessage>} */
  #table;
  /** @type {HTMLElement} */
  #box;
  /** @type {HTMLElement} */
  #place;

  /**
   * The channel has these sequences now; 0 where it is empty.
   * @param {number} first
   * @param {number} last
   */
  setRange(first, last) {
    [this.#first, this.#last] = [first, last];
    void this.#read();
  }

  get #start() {
    return this.#from || Math.max(this.#first, this.#last - PAGE + 1);
  }

  async #read() {
    const end = this.#start + PAGE - 1;
    const wanted = `${this.#start} ${Math.min(end, this.#last)}`;
    if (this.#isAsking || wanted === this.#shown) return;
    const { link, cluster, channel, signal } = this.#options;
    this.#isAsking = true;
    try {
      const found = /** @type {StoredMessage[]} */ ([]);
      const damaged = this.#last && this.#start <= this.#last ? await replay(link, cluster, { channel, start_sequence: this.#start, end_sequence: Math.min(end, this.#last) }, { count: PAGE, take: (message) => found.push(message), signal }) : "";
      this.#shown = wanted;
      this.#table.setRows(found);
      replace(this.#box, this.#table.element, damaged && h("p", { class: "problem" }, text.damaged(damaged)));
      this.#place.textContent = found.length ? text.shown(count(found[0].sequence), count(found[found.length - 1].sequence)) : "";
    } catch (error) {
      if (!signal.aborted) replace(this.#box, failure(error, button(text.newest, () => this.#goTo(0))));
    } finally {
      this.#isAsking = false;
    }
  }

  /** @param {number} by */
  #move(by) {
    const next = Math.max(this.#first, this.#start + by);
    this.#goTo(next + PAGE > this.#last ? 0 : next);
  }

  /** @param {number} from */
  #goTo(from) {
    this.#from = from;
    this.#shown = "";
    this.#options.moved(from || undefined);
    void this.#read();
  }

  /** @param {HTMLInputElement} control */
  #jump(control) {
    const typed = control.value.trim();
    const isRight = /^[1-9]\d{0,15}$/.test(typed);
    control.setCustomValidity(isRight ? "" : text.fromWrong);
    if (isRight) this.#goTo(Number(typed));
    else {
      control.reportValidity();
      control.setCustomValidity("");
    }
  }

  /** @param {StoredMessage} message */
  #open(message) {
    openPanel(
      text.message(count(message.sequence)),
      { signal: this.#options.signal },
      facts([[text.columns.name, foreign(message.subject)], [text.columns.time, when(message.time)], ...message.headers.map(([name, value]) => /** @type {[string, HTMLElement]} */ ([name, foreign(value)]))]),
      payloadView(message.data),
    );
  }
}
