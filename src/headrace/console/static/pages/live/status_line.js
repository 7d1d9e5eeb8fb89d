/** The line above the messages: the state of the tail, and how many came, match, were left out. */

import { h, replace } from "../../dom/element.js";
import { brief, byteRate, count, rate } from "../../format.js";
import { text } from "../../text/live.js";
import { status } from "../../ui/blocks.js";

/** @typedef {import("./tail.js").Tail} Tail */

/** Rates are of the time since the line was drawn before. */
export class StatusLine {
  element = h("div", { class: "row live-status" });
  #before = { count: 0, bytes: 0, time: 0 };

  /**
   * @param {Tail} tail
   * @param {{ held: boolean, notShown: number }} view
   */
  draw(tail, { held, notShown }) {
    const now = performance.now();
    const seconds = (now - this.#before.time) / 1_000;
    const isFirst = !this.#before.time || tail.count < this.#before.count;
    const speed = isFirst ? 0 : (tail.count - this.#before.count) / seconds;
    const byteSpeed = isFirst ? 0 : (tail.bytes - this.#before.bytes) / seconds;
    this.#before = { count: tail.count, bytes: tail.bytes, time: now };
    replace(
      this.element,
      state(tail, held),
      h("strong", { class: "number" }, text.messages(count(tail.count))),
      h("span", { class: "number" }, rate(speed)),
      h("span", { class: "number" }, byteRate(byteSpeed)),
      tail.filter && h("span", { class: "number" }, text.matching(count(tail.matching))),
      notShown > 0 && h("span", { class: "number muted", title: text.notShownHint }, text.notShown(count(notShown))),
      tail.hidden > 0 && h("span", { class: "number muted" }, text.hidden(count(tail.hidden))),
      tail.unread > 0 && h("span", { class: "number muted" }, text.unread(count(tail.unread))),
      tail.skipped > 0 && h("span", { class: "number muted", title: text.sampling(rate(tail.estimate)) }, text.skipped(brief(tail.skipped))),
      tail.isSampling && h("p", { class: "hint-box small" }, text.sampling(rate(tail.estimate))),
    );
  }
}

/**
 * @param {Tail} tail
 * @param {boolean} held
 */
function state(tail, held) {
  if (tail.isLost) return status("warn", text.states.lost);
  if (!tail.isRunning) return status("idle", text.states.stopped);
  if (held) return status("info", text.states.held);
  return tail.isSampling ? status("warn", text.states.sampling) : status("good", text.states.listening);
}
