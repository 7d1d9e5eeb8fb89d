/** One message at the side: its headers and payload, and what can be done with it. */

import { to } from "../../app.js";
import { foreign, h } from "../../dom/element.js";
import { bytes, time, utc } from "../../format.js";
import { text } from "../../text/live.js";
import { button, copy, facts, linkButton, onCommandLine, status } from "../../ui/blocks.js";
import { openPanel } from "../../ui/dialog.js";
import { payloadLine, payloadView } from "../../ui/payload.js";
import { sendCommand } from "./commands.js";
import { document as asDocument, utf8 } from "./export.js";

/** @typedef {import("../../nats/messages.js").Received} Received */
/** @typedef {import("./compose.js").Filled} Filled */

/**
 * @param {Received} message
 * @param {{ compose: ((filled: Filled) => void) | null, signal: AbortSignal }} options `compose`: null where nothing may be sent
 */
export function openMessage(message, { compose, signal }) {
  const words = text.details;
  const panel = openPanel(
    foreign(message.subject, "mono"),
    { signal },
    facts([
      [words.time, h("time", { title: utc(message.time) }, time(message.time))],
      [words.reply, message.reply ? foreign(message.reply, "mono") : undefined],
      [words.status, message.status ? foreign(message.status) : undefined],
      [words.size, bytes(message.size)],
    ]),
    h("h3", {}, words.headers),
    headerTable(message),
    h("h3", {}, text.columns.payload),
    message.data.length ? payloadView(message.data) : payloadLine(message.data),
    h(
      "div",
      { class: "buttons" },
      compose && button(words.again, () => { panel.close(); compose({ subject: message.subject, data: message.data, headers: message.headers }); }, { icon: "edit" }),
      compose && message.reply && button(words.answer, () => { panel.close(); compose({ subject: message.reply }); }, { icon: "back" }),
      linkButton(words.only, to("live", [], { subject: message.subject }), { icon: "search" }),
      button(words.json, () => copy(JSON.stringify(asDocument(message), null, 2)), { icon: "copy" }),
    ),
    onCommandLine(sendCommand("pub", { subject: message.subject, text: utf8(message.data), headers: message.headers })),
  );
  panel.addEventListener("click", (event) => {
    if (/** @type {Element} */ (event.target).closest("a")) panel.close();
  });
}

/** @param {Received} message */
export function headerTable(message) {
  if (message.isOdd) return status("warn", text.details.odd);
  if (!message.headers.length) return h("p", { class: "muted" }, text.details.noHeaders);
  return h("dl", { class: "facts headers" }, message.headers.flatMap(([name, value]) => [h("dt", {}, foreign(name, "mono")), h("dd", {}, foreign(value, "mono"))]));
}
