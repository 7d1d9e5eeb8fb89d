/** Publishing to a stream: a subject, headers, a payload; the answer is the sequence it has. */

import { schemaFor, schemasOf } from "../../data/schema.js";
import { h } from "../../dom/element.js";
import { count } from "../../format.js";
import { publishStored } from "../../nats/jetstream.js";
import { noted } from "../../nats/own_actions.js";
import { readHeaders } from "../../nats/messages.js";
import { covers, isSubject } from "../../nats/subjects.js";
import { text } from "../../text/stream_messages.js";
import { openForm } from "../../ui/dialog.js";
import { field, input, textarea } from "../../ui/fields.js";
import { decode } from "../../ui/payload.js";
import { say } from "../../ui/toasts.js";

/** @typedef {import("../../nats/jetstream.js").StoredMessage} StoredMessage */

/** Headers that the server made, or that would make a copy of the message something else. */
const NOT_AGAIN = /^(Nats-Msg-Id|Nats-Expected-|Headrace-Console|Nats-Stream-Source|Nats-Schedule)/i;

/**
 * @param {import("../../nats/link.js").Link} link
 * @param {import("../../nats/jetstream.js").StreamInfo} info
 * @param {{ message?: StoredMessage, done: () => void }} options message: what is published again, edited
 */
export function openPublish(link, info, { message, done }) {
  const { config } = info;
  const subjects = config.subjects ?? [];
  const subject = field(text.publishTo, input({ class: "mono", value: message?.subject ?? (subjects[0] ?? "").replace(/(\.?)[>*].*$/, "$1") }), { check: (value) => wrongSubject(value, subjects) });
  const payload = field(text.publishBody, textarea({ class: "mono", rows: 8, value: message ? decode(message.data) : "" }));
  const headers = field(text.publishHeaders, textarea({ class: "mono", rows: 2, value: message?.headers.filter(([name]) => !NOT_AGAIN.test(name)).map(([name, value]) => `${name}: ${value}`).join("\n") ?? "" }), {
    hint: text.publishHeadersHint, check: (value) => (headerLines(value) ? "" : text.publishHeadersWrong),
  });
  const id = field(text.publishId, input({ class: "mono" }), { hint: text.publishIdHint });
  const known = schemasOf(config.metadata);
  let isWarned = false;
  return openForm(text.publishTitle, {
    wide: true,
    fields: [subject.element, payload.element, h("div", { class: "form columns" }, headers.element, id.element)],
    verb: text.publishGo,
    isRight: () => {
      if (!subject.isRight() || !headers.isRight()) return false;
      if (isWarned || schemaFor(known, subject.value().trim())?.type !== "json" || isJson(payload.value())) return true;
      isWarned = true;
      payload.complain(text.notJson);
      return false;
    },
    run: async () => {
      const lines = headerLines(headers.value()) ?? [];
      if (id.value().trim()) lines.push(["Nats-Msg-Id", id.value().trim()]);
      const to = subject.value().trim();
      const answer = await noted(link, "publish", [to], publishStored(link, to, payload.value(), lines));
      say(answer.duplicate ? text.duplicate(count(answer.seq)) : text.published(count(answer.seq)));
      done();
    },
  });
}

/**
 * @param {string} value
 * @param {string[]} subjects
 */
function wrongSubject(value, subjects) {
  const subject = value.trim();
  if (!isSubject(subject, { wildcards: false })) return text.publishSubjectWrong;
  return subjects.length && !subjects.some((pattern) => covers(pattern, subject)) ? text.publishOther(subjects.join(", ")) : "";
}

/**
 * Headers that a person typed, one a line; null where a line is none.
 * @param {string} typed
 */
function headerLines(typed) {
  try {
    return readHeaders(typed, () => text.publishHeadersWrong);
  } catch {
    return null;
  }
}

/** @param {string} written */
function isJson(written) {
  try {
    JSON.parse(written);
    return true;
  } catch {
    return false;
  }
}
