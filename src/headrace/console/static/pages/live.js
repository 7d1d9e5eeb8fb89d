/** The live page: messages as they pass, and a message of one's own. `#/live?subject=orders.>&filter=total>100`. */

import { foreign, h, replace } from "../dom/element.js";
import { count } from "../format.js";
import { useStyles } from "../dom/styles.js";
import { pause } from "../data/poll.js";
import { mayPublishAnything } from "../nats/rights.js";
import { text } from "../text/live.js";
import { button, card, onCommandLine, pageHead } from "../ui/blocks.js";
import { saveFile } from "../ui/download.js";
import { empty, failure } from "../ui/empty.js";
import { subCommand } from "./live/commands.js";
import { Composer } from "./live/compose.js";
import { addressOf, beginning, problemOf, readWanted, tailControls } from "./live/controls.js";
import { openMessage } from "./live/details.js";
import { jsonLines } from "./live/export.js";
import { readFilter } from "./live/filter.js";
import { MessageList } from "./live/message_list.js";
import { StatusLine } from "./live/status_line.js";
import { SubjectTree } from "./live/subject_tree.js";
import { Tail } from "./live/tail.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("./live/controls.js").Wanted} Wanted */
/** @typedef {import("./live/draft_form.js").Filled} Filled */
/** @typedef {import("../nats/link.js").Link} Link */

/** @param {Place} place */
export async function show(place) {
  await useStyles("live");
  if (place.signal.aborted) return;
  new LivePage(place, /** @type {Link} */ (place.app.any));
}

class LivePage {
  /**
   * @param {Place} place
   * @param {Link} link
   */
  constructor(place, link) {
    this.#place = place;
    this.#link = link;
    this.#wanted = readWanted(place.query);
    this.#body = h("div", { class: "stack" });
    this.#command = h("div");
    const reason = () => !mayPublishAnything(link) && text.compose.forbidden("");
    const write = !place.app.isReadOnly && button(text.compose.open, () => (this.#isComposing ? this.#closeComposer() : this.#compose({})), { kind: "main", icon: "edit", disabled: reason });
    replace(
      place.host,
      pageHead(text.title, { sub: text.sub([link.who.user || link.role, link.who.account].filter(Boolean).join(" · ")), actions: [write] }),
      this.#writing,
      tailControls(this.#wanted, { isOn: this.#wanted.patterns.length > 0, go: (wanted) => this.#go(wanted), filtered: (typed) => this.#filter(typed) }),
      this.#body,
      this.#command,
    );
    this.#begin();
    if (place.path[0] === "publish" && !place.app.isReadOnly) {
      this.#compose({ subject: place.query.get("to") ?? "", kind: place.query.get("kind") === "request" ? "request" : "publish" });
    }
  }

  /** @type {Place} */
  #place;
  /** @type {Link} */
  #link;
  /** @type {Wanted} */
  #wanted;
  /** @type {HTMLElement} */
  #body;
  /** @type {HTMLElement} */
  #command;
  #writing = h("div", { class: "live-writing", hidden: true });
  #isComposing = false;
  #composing = new AbortController();
  /** @type {Tail | null} */
  #tail = null;
  /** @type {MessageList | null} */
  #list = null;
  #line = new StatusLine();
  #tree = new SubjectTree((pattern) => this.#go({ ...this.#wanted, patterns: [pattern] }));
  #problems = h("div", { class: "stack" });
  #tools = h("div", { class: "buttons" });

  // -- the tail ------------------------------------------------------------------------------------

  #begin() {
    const { patterns, queue, showsSystem } = this.#wanted;
    this.#drawCommand();
    if (!patterns.length || problemOf(this.#wanted)) return replace(this.#body, card("", {}, beginning(this.#link.role === "operator")));
    const { signal } = this.#place;
    const tail = (this.#tail = new Tail(this.#link, {
      patterns, queue, showsSystem, signal,
      filter: readFilter(this.#wanted.filter),
      came: () => this.#list?.wake(),
      failed: (error) => this.#problems.append(card("", {}, failure(error))),
    }));
    this.#list = new MessageList(tail, {
      signal,
      open: (row) => openMessage(row, { compose: this.#place.app.isReadOnly ? null : (filled) => this.#compose(filled), signal }),
      empty: () => this.#nothing(),
      changed: () => this.#draw(),
    });
    replace(
      this.#body,
      queue && h("p", { class: "hint-box" }, text.queueTakes(queue)),
      this.#problems,
      h("div", { class: "live-columns" }, h("section", { class: "card live-messages", "aria-label": text.tableLabel }, h("header", {}, this.#line.element, this.#tools), this.#list.element), card(text.tree, { flush: true, class: "live-tree" }, this.#tree.element)),
    );
    const timer = window.setInterval(() => this.#draw(), 1_000);
    signal.addEventListener("abort", () => clearInterval(timer));
    pause.addEventListener("change", () => this.#list?.hold(pause.isOn), { signal });
    if (pause.isOn) this.#list.isHeldByHand = true;
    this.#list.refresh();
    this.#draw();
    return undefined;
  }

  /** The figures and the tree; the rows have a pace of their own. */
  #draw() {
    const [tail, list] = [this.#tail, this.#list];
    if (!tail || !list || document.hidden) return;
    this.#line.draw(tail, { held: list.isHeld, notShown: list.notShown });
    this.#tree.draw(tail.subjects.root);
    this.#drawTools(tail, list);
    if (!tail.ring.count && !list.isHeld) list.refresh();
  }

  /**
   * @param {Tail} tail
   * @param {MessageList} list
   */
  #drawTools(tail, list) {
    const shown = `${tail.isRunning} ${list.isHeldByHand}`;
    if (this.#tools.dataset.shown === shown) return;
    this.#tools.dataset.shown = shown;
    replace(
      this.#tools,
      button(list.isHeldByHand ? text.resume : text.pause, () => { list.hold(!list.isHeldByHand); this.#draw(); }, { kind: "small", icon: list.isHeldByHand ? "play" : "pause" }),
      tail.isRunning && button(text.stop, () => { tail.stop(); list.wake(); this.#draw(); }, { kind: "small" }),
      button(text.clear, () => { tail.clear(); list.clear(); this.#draw(); }, { kind: "small", icon: "trash" }),
      button(text.save, () => this.#save(tail), { kind: "small", icon: "download" }),
    );
  }

  #nothing() {
    const tail = /** @type {Tail} */ (this.#tail);
    if (tail.filter && tail.count) return empty(text.noneMatches(count(tail.count)), button(text.clearFilter, () => this.#go({ ...this.#wanted, filter: "" })));
    if (tail.hidden) return empty(text.noneShown(count(tail.hidden)), button(text.showSystem, () => this.#go({ ...this.#wanted, showsSystem: true })));
    return empty(
      text.waiting,
      h("p", {}, foreign(this.#wanted.patterns.join(" "), "mono")),
      h("p", {}, text.waitingNext),
      !this.#place.app.isReadOnly && button(text.publishOne, () => this.#compose({}), { disabled: () => !mayPublishAnything(this.#link) && text.compose.forbidden("") }),
    );
  }

  /** @param {Tail} tail */
  #save(tail) {
    const rows = tail.ring.newest().reverse().filter((row) => row.note === undefined);
    saveFile(`live-${this.#wanted.patterns.join("-")}.jsonl`, jsonLines(rows), "application/x-ndjson");
  }

  // -- what is wanted ------------------------------------------------------------------------------

  /** @param {Wanted} wanted */
  #go(wanted) {
    const href = addressOf(wanted, this.#isComposing);
    if (href === location.hash) window.dispatchEvent(new HashChangeEvent("hashchange"));
    else this.#place.go(href);
  }

  /**
   * The filter is another one from now on; what is kept stays.
   * @param {string} typed
   */
  #filter(typed) {
    this.#wanted = { ...this.#wanted, filter: typed };
    if (this.#tail) {
      this.#tail.filter = readFilter(typed);
      void this.#tail.refilter().then(() => this.#list?.clear());
    }
    this.#rename();
    this.#drawCommand();
    this.#draw();
  }

  /** The address of what is shown, without showing it again. */
  #rename() {
    history.replaceState(null, "", addressOf(this.#wanted, this.#isComposing));
  }

  #drawCommand() {
    const { patterns, queue, filter } = this.#wanted;
    replace(this.#command, onCommandLine(subCommand(patterns.length ? patterns : [">"], { queue, filter: readFilter(filter) })));
  }

  // -- a message of one's own ----------------------------------------------------------------------

  /** @param {Filled} filled */
  #compose(filled) {
    this.#composing.abort();
    this.#composing = new AbortController();
    const { signal } = this.#place;
    const composer = new Composer(this.#link, { filled, signal: AbortSignal.any([signal, this.#composing.signal]) });
    replace(this.#writing, card(text.compose.title, { actions: [button(h("span", { class: "hidden-visually" }, text.compose.close), () => this.#closeComposer(), { kind: "quiet square", icon: "close", title: text.compose.close })] }, composer.element));
    this.#writing.hidden = false;
    this.#isComposing = true;
    this.#rename();
    composer.focus();
    this.#writing.scrollIntoView({ block: "nearest" });
  }

  #closeComposer() {
    this.#composing.abort();
    this.#isComposing = false;
    this.#writing.hidden = true;
    replace(this.#writing);
    this.#rename();
  }
}
