/** The search in the contents of a stream: what is typed, how far it is, and its end. */

import { search, matcher, MOST_FOUND } from "../../data/search.js";
import { h, replace } from "../../dom/element.js";
import { count, rate } from "../../format.js";
import { text } from "../../text/stream_messages.js";
import { button } from "../../ui/blocks.js";
import { showProblem } from "../../ui/dialog.js";
import { field, input } from "../../ui/fields.js";

/** @typedef {import("../../nats/jetstream.js").StoredMessage} StoredMessage */
/** @typedef {import("../../data/search.js").Progress} Progress */

/** What is found is shown so often at most, in ms. */
const SHOWN_MS = 200;

export class SearchLine {
  /**
   * @param {import("./one.js").StreamPlace} stream
   * @param {{ subject: () => string, began: () => void, found: (messages: StoredMessage[]) => void, ended: () => void }} events
   */
  constructor(stream, events) {
    this.#stream = stream;
    this.#events = events;
    this.#field = field(text.search, input({ placeholder: text.searchHint, title: text.searchHint, type: "search" }));
    this.form = h(
      "form",
      { class: "with-button grow", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.#submit(); } },
      this.#field.element,
      h("button", { class: "button", type: "submit" }, text.searchGo),
    );
    this.line = h("div", { class: "table-tools", hidden: true });
    this.#problem = h("div", { class: "problem", hidden: true, role: "alert" });
    stream.place.signal.addEventListener("abort", () => this.#stop.abort());
  }

  isOn = false;
  typed = "";
  /** @type {import("./one.js").StreamPlace} */
  #stream;
  /** @type {{ subject: () => string, began: () => void, found: (messages: StoredMessage[]) => void, ended: () => void }} */
  #events;
  /** @type {ReturnType<typeof field<HTMLInputElement>>} */
  #field;
  /** @type {HTMLElement} */
  #problem;
  #stop = new AbortController();
  #said = "";

  /** What stands where nothing was found, or not yet. */
  words() {
    return this.#said;
  }

  /** @param {string} typed */
  start(typed) {
    this.#field.control.value = typed;
    this.#submit();
  }

  #submit() {
    this.#stop.abort();
    this.typed = this.#field.value().trim();
    if (!this.typed) return this.#end();
    this.isOn = true;
    this.line.hidden = false;
    this.#events.began();
    void this.#run();
    return undefined;
  }

  #end() {
    this.#stop.abort();
    const was = this.isOn;
    this.isOn = false;
    this.typed = "";
    this.#field.control.value = "";
    this.line.hidden = true;
    if (was) this.#events.ended();
  }

  async #run() {
    const stop = (this.#stop = new AbortController());
    const { link, info } = this.#stream;
    const found = /** @type {StoredMessage[]} */ ([]);
    let shownAt = 0;
    const words = h("span", { role: "status" });
    this.#problem.hidden = true;
    replace(this.line, words, button(text.stop, () => stop.abort(), { kind: "small" }), this.#problem);
    const said = (/** @type {Progress} */ now) => {
      this.#said = text.searching(count(now.found), count(now.read), rate(now.rate), count(now.sequence));
      words.textContent = this.#said;
    };
    try {
      said({ found: 0, read: 0, rate: 0, sequence: info.state.last_seq });
      const last = await search(link, info.config, {
        state: info.state, before: info.state.last_seq + 1, subject: this.#events.subject() || undefined, matches: matcher(this.typed), signal: stop.signal,
        take: (message) => found.push(message),
        progress: (now) => {
          said(now);
          if (Date.now() - shownAt < SHOWN_MS) return;
          shownAt = Date.now();
          this.#events.found([...found]);
        },
      });
      if (stop !== this.#stop || this.#stream.place.signal.aborted) return;
      this.#said = outcome(last, info.state.first_seq, stop.signal.aborted, this.typed);
    } catch (error) {
      if (stop !== this.#stop) return;
      showProblem(this.#problem, error);
    }
    words.textContent = found.length ? this.#said : "";
    replace(this.line, words, this.#problem, button(text.endSearch, () => this.#end(), { kind: "small" }));
    this.#events.found([...found]);
  }
}

/**
 * @param {Progress} last
 * @param {number} first
 * @param {boolean} isStopped
 * @param {string} typed
 */
function outcome(last, first, isStopped, typed) {
  if (last.found >= MOST_FOUND && last.sequence > first) return text.searchFull(count(last.found), count(last.sequence));
  if (isStopped) return text.searchStopped(count(last.sequence), count(last.found));
  return last.found ? text.searchDone(count(last.found), count(last.read)) : text.searchNothing(typed);
}
