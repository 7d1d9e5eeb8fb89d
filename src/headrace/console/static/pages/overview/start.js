/** What an unused server shows: three lines to copy, and a button that does what they do. */

import { foreign, h, replace } from "../../dom/element.js";
import { duration } from "../../format.js";
import { noted } from "../../nats/own_actions.js";
import { text } from "../../text/overview.js";
import { button, card, commandLine, status } from "../../ui/blocks.js";
import { failure } from "../../ui/empty.js";
import { decode } from "../../ui/payload.js";

const SUBJECT = "hello.you";
const PAYLOAD = "hi";

/**
 * @param {import("../../app.js").App} app
 * @param {AbortSignal} signal
 */
export function firstSteps(app, signal) {
  const result = h("div", { role: "status" });
  const link = app.account;
  return card(
    text.start,
    {},
    h("div", { class: "stack" }, commandLine("headrace sub 'hello.>'"), commandLine(`headrace pub ${SUBJECT} ${PAYLOAD}`), commandLine("headrace stream add ORDERS --subjects 'orders.>'")),
    link && !app.isReadOnly && h("div", { class: "row" }, button(text.startButton, () => void greet(link, result, signal), { kind: "main", icon: "play" }), h("span", { class: "muted" }, text.startHint)),
    result,
  );
}

/**
 * Subscribe, publish one message, show it arriving.
 *
 * @param {import("../../nats/link.js").Link} link
 * @param {HTMLElement} result
 * @param {AbortSignal} signal
 */
async function greet(link, result, signal) {
  const began = performance.now();
  try {
    const stop = link.listen("hello.>", (message) => {
      stop();
      replace(result, status("good", foreign(text.arrived(message.subject, decode(message.data), duration((performance.now() - began) / 1000)))));
    }, { signal, failed: (error) => replace(result, failure(error)) });
    await noted(link, "publish", [SUBJECT], link.publish(SUBJECT, PAYLOAD));
  } catch (error) {
    replace(result, failure(error));
  }
}
