/** The fields of a message that a person writes, and the message that is read of them. */

import { h } from "../../dom/element.js";
import { text } from "../../text/live.js";
import { choice } from "../../ui/blocks.js";
import { checkbox, field, input, textarea } from "../../ui/fields.js";
import { toBase64 } from "../../ui/payload.js";
import { readHeaders } from "../../nats/messages.js";
import { isSubject } from "../../nats/subjects.js";
import { utf8 } from "./export.js";

/** @typedef {import("../../nats/messages.js").Draft} Draft */
/** @typedef {import("../../nats/messages.js").HeaderLines} HeaderLines */
/** @typedef {{ subject?: string, data?: Uint8Array, headers?: HeaderLines, kind?: Kind }} Filled what the form begins with */
/** @typedef {"publish" | "request"} Kind */

const words = text.compose;
const LONGEST_WAIT = 300;

export class DraftForm {
  /**
   * @param {Filled} filled
   * @param {() => void} changed
   */
  constructor({ subject = "", data = new Uint8Array(0), headers = [], kind = "publish" }, changed) {
    this.kind = kind;
    const asText = utf8(data);
    this.isBase64 = asText === null;
    this.#subject = field(words.subject, input({ class: "mono", value: subject, autocapitalize: "off" }), { check: (typed) => (isSubject(typed.trim(), { wildcards: false }) ? "" : words.wrongSubject) });
    this.#payload = field(words.payload, textarea({ class: "mono", rows: 8, value: asText ?? toBase64(data) }), { check: (typed) => (this.isBase64 && fromBase64(typed) === null ? words.wrongBase64 : "") });
    this.#headers = field(words.headers, textarea({ class: "mono short", rows: 2, value: headers.map(([name, value]) => `${name}: ${value}`).join("\n") }), { hint: words.headersHint, check: wrongHeader });
    this.#reply = field(words.reply, input({ class: "mono", autocapitalize: "off" }), { hint: words.replyHint, check: (typed) => (!typed.trim() || isSubject(typed.trim(), { wildcards: false }) ? "" : words.wrongReply) });
    this.#timeout = field(words.timeout, input({ class: "short", value: "5", inputmode: "decimal" }), { check: (typed) => (Number(typed) > 0 && Number(typed) <= LONGEST_WAIT ? "" : words.wrongTimeout) });
    this.#json = h("p", { class: "small muted", role: "status" });
    this.#trace = checkbox(words.trace, { onchange: () => this.#arrange() });
    this.#only = checkbox(words.only, { onchange: changed });
    this.#forPublish = h("div", { class: "stack" }, this.#reply.element);
    this.#forRequest = h(
      "div",
      { class: "row" },
      h("div", { class: "field" }, h("span", { class: "label" }, words.answers), choice(words.answers, [["one", words.one], ["many", words.many]], "one", (value) => { this.wantsMany = value === "many"; changed(); })),
      this.#timeout.element,
    );
    this.element = h(
      "div",
      { class: "draft" },
      h("div", { class: "stack" }, choice(words.kind, [["publish", words.publish], ["request", words.request]], kind, (value) => { this.kind = value; this.#arrange(); }), this.#subject.element, this.#headers.element, this.#forPublish, this.#forRequest, this.#trace.element, this.#only.element),
      h("div", { class: "stack draft-payload" }, h("div", { class: "row" }, choice(words.as, [["text", words.asText], ["base64", words.asBase64]], this.isBase64 ? "base64" : "text", (value) => this.#become(value === "base64"))), this.#payload.element, this.#json),
    );
    this.element.addEventListener("input", () => {
      this.#checkJson();
      changed();
    });
    this.#changed = changed;
    this.#arrange();
  }

  /** @type {Kind} */
  kind = "publish";
  wantsMany = false;
  isBase64 = false;
  #subject;
  #payload;
  #headers;
  #reply;
  #timeout;
  #trace;
  #only;
  #json;
  #forPublish;
  #forRequest;
  #changed;

  get subject() {
    return this.#subject.value().trim();
  }

  get wantsTrace() {
    return this.#trace.control.checked;
  }

  /** True if the message is traced, and delivered to nobody. */
  get isOnlyTraced() {
    return this.kind === "publish" && this.wantsTrace && this.#only.control.checked;
  }

  get timeout() {
    return Number(this.#timeout.value()) * 1_000;
  }

  /** What was typed, for a command; null where the payload is no text. */
  get typed() {
    return { subject: this.subject, text: this.isBase64 ? null : this.#payload.value(), headers: this.#readHeaders(), reply: this.kind === "publish" ? this.#reply.value().trim() : "" };
  }

  focus() {
    (this.subject ? this.#payload : this.#subject).control.focus({ preventScroll: true });
  }

  /** @param {string} words */
  complain(words) {
    this.#subject.complain(words);
  }

  /**
   * The message, or null where a field is wrong; the field then says so.
   * @returns {Draft | null}
   */
  read() {
    const fields = [this.#subject, this.#payload, this.#headers, ...(this.kind === "publish" ? [this.#reply] : [this.#timeout])];
    const wrong = fields.filter((each) => !each.isRight());
    if (wrong.length) {
      wrong[0].control.focus();
      return null;
    }
    const typed = this.#payload.value();
    const body = this.isBase64 ? /** @type {Uint8Array} */ (fromBase64(typed)) : new TextEncoder().encode(typed);
    return { subject: this.subject, body, headers: this.#readHeaders(), reply: this.kind === "publish" ? this.#reply.value().trim() : "" };
  }

  #readHeaders() {
    return wrongHeader(this.#headers.value()) ? [] : readHeaders(this.#headers.value(), words.wrongHeader);
  }

  #arrange() {
    this.#forPublish.hidden = this.kind === "request";
    this.#forRequest.hidden = this.kind === "publish";
    this.#only.element.hidden = !this.wantsTrace || this.kind === "request";
    this.#changed();
  }

  /** @param {boolean} isBase64 */
  #become(isBase64) {
    if (isBase64 === this.isBase64) return;
    const typed = this.#payload.value();
    if (isBase64) this.#payload.control.value = toBase64(new TextEncoder().encode(typed));
    else {
      const data = fromBase64(typed);
      this.#payload.control.value = data ? new TextDecoder().decode(data) : typed;
    }
    this.isBase64 = isBase64;
    this.#payload.complain("");
    this.#checkJson();
    this.#changed();
  }

  /** A payload that begins as JSON is told where it is none; it can be sent all the same. */
  #checkJson() {
    const typed = this.#payload.value();
    let problem = "";
    if (!this.isBase64 && /^\s*[{[]/.test(typed) && typed.length < 262_144) {
      try {
        JSON.parse(typed);
      } catch (error) {
        problem = words.noJson(/** @type {Error} */ (error).message);
      }
    }
    if (this.#json.textContent !== problem) this.#json.textContent = problem;
  }
}

/** @param {string} typed */
function wrongHeader(typed) {
  try {
    readHeaders(typed, words.wrongHeader);
    return "";
  } catch (error) {
    return /** @type {Error} */ (error).message;
  }
}

/** @param {string} typed */
function fromBase64(typed) {
  try {
    return Uint8Array.from(atob(typed.replace(/\s+/g, "")), (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}
