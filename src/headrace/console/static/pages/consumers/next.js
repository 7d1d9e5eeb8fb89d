/** Taking the next message of a pull consumer, as a client of it does, and answering it. */

import { foreign, h, replace, visible } from "../../dom/element.js";
import { count, durationNs, readDurationNs } from "../../format.js";
import { acknowledge, pullOne } from "../../nats/pulls.js";
import { text } from "../../text/consumers.js";
import { text as messageText } from "../../text/stream_messages.js";
import { button, facts, onCommandLine, shellWord, status } from "../../ui/blocks.js";
import { openDialog, showProblem } from "../../ui/dialog.js";
import { field, input, select } from "../../ui/fields.js";
import { payloadView } from "../../ui/payload.js";

/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../../nats/pulls.js").Delivered} Delivered */

/**
 * @param {import("../index.js").Place} place
 * @param {import("../../nats/link.js").Link} link
 * @param {ConsumerInfo} info
 * @param {() => void} done
 */
export function openNext(place, link, info, done) {
  const { stream_name: stream, name, config } = info;
  const groups = /** @type {string[]} */ (config.priority_groups ?? []);
  const group = groups.length ? field(text.nextGroup, select(groups.map((one) => [one, one]))) : null;
  const body = h("div", { class: "stack" });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const footer = h("footer");
  const take = async () => {
    problem.hidden = true;
    replace(footer);
    try {
      const message = await pullOne(link, stream, name, { group: group?.value() });
      replace(body, message ? taken(message, config) : h("p", { role: "status" }, text.nextNone));
      replace(footer, message && config.ack_policy !== "none" ? answers(message) : go());
      done();
    } catch (error) {
      showProblem(problem, error);
      replace(footer, go());
    }
  };
  const go = () => button(text.nextGo, () => void take(), { kind: "main" });
  /** @param {Delivered} message */
  const answers = (message) => {
    const delay = field(text.nakDelay, input({ class: "short" }), { hint: text.nakDelayHint, check: (value) => (!value.trim() || readDurationNs(value) !== null ? "" : text.nakDelayHint) });
    /** @param {"ack" | "nak" | "term" | "progress"} what */
    const answer = async (what) => {
      if (what === "nak" && !delay.isRight()) return;
      problem.hidden = true;
      try {
        await acknowledge(link, message.reply, what, { delayNs: readDurationNs(delay.value()) ?? 0 });
        replace(said, status(what === "ack" ? "good" : "info", text.answered[what]));
        if (what !== "progress") replace(footer, go());
        done();
      } catch (error) {
        showProblem(problem, error);
      }
    };
    const said = h("div", { role: "status" });
    body.append(delay.element, said);
    return [
      h("span", { class: "start" }, button(text.progress, () => void answer("progress"), { kind: "quiet", title: text.progressHint })),
      button(text.term, () => void answer("term"), { kind: "danger", title: text.termHint }),
      button(text.nak, () => void answer("nak"), { title: text.nakHint }),
      button(text.ack, () => void answer("ack"), { kind: "main", title: text.ackHint }),
    ];
  };
  replace(footer, go());
  openDialog(
    text.nextTitle(name),
    { class: "wide", signal: place.signal },
    h("p", { class: "hint-box" }, text.nextNote),
    group?.element,
    body,
    problem,
    footer,
    onCommandLine(`headrace consumer next ${shellWord(stream)} ${shellWord(name)} --ack`),
  );
}

/**
 * @param {Delivered} message
 * @param {import("../../nats/jetstream.js").ConsumerConfig} config
 */
function taken(message, config) {
  const wait = config.backoff?.[Math.min(message.delivery, config.backoff.length) - 1] ?? config.ack_wait ?? 0;
  return h(
    "div",
    { class: "stack" },
    h("p", { role: "status" }, h("strong", {}, text.nextTaken(count(message.sequence), message.delivery)), " ", config.ack_policy === "none" ? text.nextNoAck : text.nextWait(durationNs(wait))),
    facts([
      [messageText.columns.subject, foreign(message.subject, "mono")],
      ...message.headers.map(([name, value]) => /** @type {[string, import("../../dom/element.js").Child]} */ ([visible(name), foreign(value, "mono")])),
    ]),
    payloadView(message.data),
  );
}
