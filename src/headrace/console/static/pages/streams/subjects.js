/** The subjects of a stream with their counts of messages; of very many those that match a pattern. */

import { to } from "../../app.js";
import { addressQuery, keepInAddress } from "../../dom/address_query.js";
import { foreign, h, replace } from "../../dom/element.js";
import { count } from "../../format.js";
import { streamInfo } from "../../nats/jetstream.js";
import { text } from "../../text/streams.js";
import { card } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { filterInput } from "../../ui/fields.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";

/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */

/** So many subjects are asked for without a pattern. */
const MANY = 10_000;
/** Counts are asked for again after so long, in ms; of many subjects the answer is long. */
const FRESH_MS = 10_000;
/** A person types a pattern: it is asked for after this pause, in ms. */
const TYPING_MS = 300;

/**
 * @param {import("../../nats/link.js").Link} link
 * @param {StreamInfo} info
 * @param {{ signal: AbortSignal }} options
 */
export function subjectsCard(link, info, { signal }) {
  const name = info.config.name;
  const body = h("div");
  const note = h("p", { class: "muted small table-foot", hidden: true });
  let pattern = addressQuery().get("subjects") ?? "";
  let state = info.state;
  let askedAt = 0;
  let askedOf = -1;
  let isAsking = false;
  let timer = 0;
  const table = new Table(inAddress({
    name: "subjects", label: text.subjects, plain: true, sorted: ["messages", "down"], key: (/** @type {[string, number]} */ row) => row[0],
    columns: [
      { name: "subject", label: text.subjectColumns.subject, sort: (row) => row[0], cell: ([subject]) => h("a", { href: to("streams", [name, "messages"], { subject }) }, foreign(subject, "mono")) },
      { name: "messages", label: text.subjectColumns.messages, number: true, sort: (row) => row[1], cell: ([, messages]) => count(messages) },
    ],
  }, "subjects-"));
  const ask = async () => {
    if (isAsking) return;
    isAsking = true;
    [askedAt, askedOf] = [Date.now(), state.last_seq];
    const wanted = pattern;
    try {
      const answer = await streamInfo(link, name, { subjects_filter: wanted || ">" });
      if (!signal.aborted) show(answer, wanted);
    } catch (error) {
      if (!signal.aborted) replace(body, failure(error));
    } finally {
      isAsking = false;
    }
    if (wanted !== pattern && !signal.aborted) void ask();
  };
  /**
   * @param {StreamInfo} answer
   * @param {string} wanted
   */
  const show = (answer, wanted) => {
    const rows = Object.entries(answer.state.subjects ?? {});
    if (!rows.length) replace(body, empty(wanted ? text.subjectNothing(wanted) : text.subjectNone));
    else if (!table.element.isConnected) replace(body, table.element);
    table.setRows(rows);
    const total = answer.total ?? rows.length;
    note.hidden = total <= rows.length;
    note.textContent = text.subjectPart(count(rows.length), count(total));
  };
  const isTooMuch = () => !pattern && (state.num_subjects ?? 0) > MANY;
  const input = filterInput(text.subjectPattern, (typed) => {
    pattern = typed.trim();
    keepInAddress({ subjects: pattern });
    clearTimeout(timer);
    timer = window.setTimeout(() => (isTooMuch() ? tell() : void ask()), TYPING_MS);
  }, pattern);
  const tell = () => {
    note.hidden = true;
    replace(body, empty(text.subjectMany(count(state.num_subjects ?? 0))));
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  return {
    element: card(text.subjects, { flush: true, actions: [h("div", { class: "subject-pattern" }, input)] }, body, note),
    /** @param {StreamInfo} now */
    update(now) {
      state = now.state;
      if (isTooMuch()) tell();
      else if (Date.now() - askedAt > FRESH_MS && state.last_seq !== askedOf) void ask();
      else if (!askedAt) void ask();
    },
  };
}
