/** Publishing a message, or asking with it: the form, then what came of it: answers, and the way it took. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, duration, exactTime } from "../../format.js";
import { publish, request } from "../../nats/messages.js";
import { mayPublish } from "../../nats/rights.js";
import { listenForTrace } from "../../nats/traces.js";
import { text } from "../../text/live.js";
import { commandLine, status } from "../../ui/blocks.js";
import { showProblem } from "../../ui/dialog.js";
import { judged } from "../../ui/judged.js";
import { payloadLine, payloadView } from "../../ui/payload.js";
import { sendCommand } from "./commands.js";
import { headerTable } from "./details.js";
import { DraftForm } from "./draft_form.js";
import { TraceView } from "./trace_view.js";

/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/messages.js").Draft} Draft */
/** @typedef {import("../../nats/messages.js").Received} Received */
/** @typedef {import("./draft_form.js").Filled} Filled */

const words = text.compose;
/** So many answers are shown; more are counted. */
const MOST_ANSWERS = 100;
/** Behind an answer so long a silence ends "all answers", as with `headrace request --replies all`. */
const QUIET_MS = 300;
/** Servers are silent of a trace for so long: then all have told. */
const TRACE_QUIET_MS = 500;

export class Composer {
  /**
   * @param {Link} link
   * @param {{ filled: Filled, signal: AbortSignal }} options
   */
  constructor(link, { filled, signal }) {
    this.#link = link;
    this.#signal = signal;
    this.#command = h("div");
    this.#problem = h("div", { class: "problem", role: "alert", hidden: true });
    this.#results = h("div", { class: "stack", "aria-live": "polite" });
    this.#go = h("button", { class: "button main", type: "submit" });
    this.#form = new DraftForm(filled, () => this.#arrange());
    this.element = h(
      "form",
      { class: "stack compose", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void this.#send(); } },
      this.#form.element,
      h("div", { class: "row" }, this.#go, h("div", { class: "compose-command" }, this.#command)),
      this.#problem,
      this.#results,
    );
    signal.addEventListener("abort", () => this.#end.abort());
    judged(this.element, () => this.#arrange());
  }

  /** @type {Link} */
  #link;
  /** @type {AbortSignal} */
  #signal;
  #end = new AbortController();
  /** @type {DraftForm | undefined} */
  #form;
  #command;
  #problem;
  #results;
  #go;
  #isBusy = false;

  focus() {
    this.#form?.focus();
  }

  #arrange() {
    const form = this.#form;
    if (!form) return; // the form tells while it is made
    const isRequest = form.kind === "request";
    const mayNot = form.subject !== "" && !mayPublish(this.#link, form.subject);
    this.#go.textContent = isRequest ? words.ask : words.send;
    this.#go.disabled = this.#isBusy || mayNot;
    this.#go.title = mayNot ? words.forbidden(form.subject) : "";
    form.complain(mayNot ? words.forbidden(form.subject) : "");
    replace(this.#command, commandLine(commandOf(form)));
  }

  async #send() {
    const form = /** @type {DraftForm} */ (this.#form);
    const draft = form.read();
    this.#problem.hidden = true;
    if (!draft || this.#isBusy) return;
    this.#end.abort();
    this.#end = new AbortController();
    replace(this.#results);
    this.#busy(true);
    try {
      this.#checkSize(draft);
      if (form.kind === "request") await this.#ask(draft, form);
      else await this.#publish(draft, form);
    } catch (error) {
      if (!this.#signal.aborted) showProblem(this.#problem, error);
    } finally {
      this.#busy(false);
    }
  }

  /** @param {boolean} isBusy */
  #busy(isBusy) {
    this.#isBusy = isBusy;
    this.#arrange();
  }

  /**
   * The server ends the connection of who sends more than it takes: the page does not.
   * @param {Draft} draft
   */
  #checkSize(draft) {
    const size = draft.body.length + draft.headers.reduce((sum, [name, value]) => sum + name.length + value.length * 3 + 4, 0);
    const most = this.#link.server.max_payload;
    if (size > most) throw new Error(words.tooLarge(bytes(size), bytes(most)));
  }

  /**
   * @param {Draft} draft
   * @param {DraftForm} form
   */
  async #publish(draft, form) {
    const trace = form.wantsTrace ? this.#trace() : null;
    await publish(this.#link, trace ? trace.headers(draft, { only: form.isOnlyTraced }) : draft);
    const time = exactTime(Date.now());
    this.#results.prepend(status("good", form.isOnlyTraced ? words.traced(draft.subject, time) : words.published(draft.subject, bytes(draft.body.length), time)));
    trace?.sent();
  }

  /**
   * @param {Draft} draft
   * @param {DraftForm} form
   */
  async #ask(draft, form) {
    const trace = form.wantsTrace ? this.#trace() : null;
    const heading = h("p", { class: "muted" }, words.waiting);
    const list = h("ol", { class: "answers" });
    this.#results.prepend(heading, list);
    const began = performance.now();
    let count = 0;
    try {
      await request(this.#link, trace ? trace.headers(draft, { only: false }) : draft, {
        most: form.wantsMany ? 0 : 1,
        timeout: form.timeout,
        quiet: QUIET_MS,
        signal: this.#end.signal,
        take: (answer) => {
          count += 1;
          heading.textContent = words.answered(count, draft.subject);
          if (count <= MOST_ANSWERS) list.append(answerItem(answer, performance.now() - began));
        },
      });
    } finally {
      if (!count) heading.remove();
      trace?.sent();
    }
    if (count > MOST_ANSWERS) list.after(h("p", { class: "muted" }, words.moreAnswers(count - MOST_ANSWERS)));
  }

  /** Show the way of the message that is sent next. */
  #trace() {
    const view = new TraceView();
    const end = new AbortController();
    this.#end.signal.addEventListener("abort", () => end.abort());
    let timer = 0;
    const wait = () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => {
        end.abort();
        if (!view.count) view.none();
      }, view.count ? TRACE_QUIET_MS * 4 : TRACE_QUIET_MS * 6);
    };
    const headers = listenForTrace(this.#link, {
      signal: end.signal,
      take: (server) => {
        view.add(server);
        wait();
      },
      failed: (error) => showProblem(this.#problem, error),
    });
    this.#results.append(view.element);
    return { headers, sent: wait };
  }
}

/** @param {DraftForm} form */
function commandOf(form) {
  const { typed } = form;
  if (form.kind === "request") return sendCommand("request", typed, ...(form.wantsMany ? ["--replies", "all"] : []));
  return form.wantsTrace ? sendCommand("trace", { ...typed, reply: "" }, ...(form.isOnlyTraced ? [] : ["--deliver"])) : sendCommand("pub", typed);
}

/**
 * @param {Received} answer
 * @param {number} ms since the request was sent
 */
function answerItem(answer, ms) {
  const code = answer.headers.find(([name]) => name.toLowerCase() === "nats-service-error-code")?.[1];
  const said = answer.headers.find(([name]) => name.toLowerCase() === "nats-service-error")?.[1] ?? "";
  return h(
    "li",
    { class: "stack" },
    h("div", { class: "row" }, h("strong", {}, words.after(duration(ms / 1_000))), h("span", { class: "muted" }, bytes(answer.size)), answer.status && h("span", { class: "tag" }, foreign(answer.status))),
    code !== undefined && status("bad", foreign(words.serviceError(code, said))),
    (answer.headers.length > 0 || answer.isOdd) && headerTable(answer),
    answer.data.length ? payloadView(answer.data) : payloadLine(answer.data),
  );
}
