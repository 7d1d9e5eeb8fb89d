/** Pipelines: the queries of pipelines on Spark by what they report, with their lag, rates and last error. */

import { to } from "../app.js";
import { PipelineReports, SILENT_MS } from "../data/pipeline_reports.js";
import { foreign, h, replace } from "../dom/element.js";
import { brief, count, duration, rate } from "../format.js";
import { text } from "../text/pipelines.js";
import { ago, button, card, commandLine, figure, figures, onCommandLine, pageHead, shellWord, status } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { field, input } from "../ui/fields.js";
import { Table } from "../ui/table.js";
import { inAddress } from "../ui/table_address.js";
import { openQuery } from "./pipelines/query.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../data/pipeline_reports.js").Reported} Reported */
/** @typedef {import("../ui/blocks.js").Tone} Tone */

/** How often ages and silent runs are drawn, in ms. */
const CLOCK_MS = 2_000;

/** @param {Place} place */
export function show({ host, query, app, signal, go }) {
  const subject = query.get("subject") ?? app.settings.pipelines ?? "";
  if (!subject || query.has("choose")) {
    replace(host, pageHead("Pipelines"), chooser(go, subject));
    return;
  }
  const reports = new PipelineReports();
  const sums = h("div");
  const notes = h("div");
  const body = h("div");
  const table = new Table(inAddress(tableOptions(signal)));
  replace(
    host,
    pageHead("Pipelines", { sub: foreign(text.sub(subject)), actions: [button(text.other, () => go(to("pipelines", [], { subject, choose: "1" })), { kind: "small" })] }),
    sums, body, notes,
    onCommandLine(`headrace pipeline run orders.yaml --report ${shellWord(subject)}`, `headrace sub ${shellWord(subject)}`),
  );
  const draw = () => {
    const found = [...reports.queries.values()];
    replace(sums, found.length > 0 && sumsOf(found));
    if (!found.length) replace(body, card("", {}, empty(text.waiting, h("p", {}, text.waitingNext), commandLine(`headrace pipeline run orders.yaml --report ${shellWord(subject)}`))));
    else if (!table.element.isConnected) replace(body, card(text.table, { flush: true }, table.element));
    table.setRows(found);
    replace(notes, reports.strange > 0 && h("p", { class: "muted small" }, text.strange(count(reports.strange))));
  };
  draw();
  const link = /** @type {import("../nats/link.js").Link} */ (app.account);
  link.listen(subject, (message) => {
    reports.take(message.data, Date.now());
    later();
  }, { signal, failed: (error) => replace(body, failure(error)) });
  const clock = setInterval(() => reports.queries.size > 0 && draw(), CLOCK_MS);
  let timer = 0;
  const later = () => { timer ||= window.setTimeout(() => { timer = 0; draw(); }, 200); };
  signal.addEventListener("abort", () => { clearInterval(clock); clearTimeout(timer); });
}

/**
 * @param {(href: string) => void} go
 * @param {string} before
 */
function chooser(go, before) {
  const subject = field(text.subject, input({ class: "medium mono", name: "subject", value: before }), { check: (value) => (/^\S+$/.test(value.trim()) ? "" : text.subjectWrong) });
  const form = h(
    "form",
    { class: "form", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); if (subject.isRight()) go(to("pipelines", [], { subject: subject.value().trim() })); } },
    subject.element,
    h("div", { class: "buttons" }, h("button", { class: "button main", type: "submit" }, text.listen)),
  );
  return card("", {}, !before && empty(text.noSubject, h("p", {}, text.noSubjectNext)), form);
}

/** @param {Reported[]} found */
function sumsOf(found) {
  const states = found.map((one) => stateOf(one)[1]);
  return figures(
    figure(text.running, count(states.filter((state) => state === "running").length)),
    figure(text.failed, count(states.filter((state) => state === "failed").length)),
    figure(text.behind, brief(found.reduce((sum, one) => sum + (one.query.lag ?? 0), 0))),
    figure(text.rate, rate(found.reduce((sum, one) => sum + (stateOf(one)[1] === "running" ? one.query.rows_per_second : 0), 0))),
  );
}

/**
 * How a query is: a run that says nothing any more was ended in some other way.
 * @param {Reported} one
 * @returns {[Tone, string]}
 */
function stateOf({ query, seen }) {
  if (query.status === "failed") return ["bad", "failed"];
  if (query.status === "ended") return ["idle", "ended"];
  if (Date.now() - seen > SILENT_MS) return ["warn", "silent"];
  return query.status === "running" ? ["good", "running"] : ["info", query.status];
}

/** @param {Reported} one */
function state(one) {
  const [tone, word] = stateOf(one);
  return status(tone, text.states[word] ?? foreign(word));
}

/**
 * @param {AbortSignal} signal
 * @returns {import("../ui/table.js").TableOptions<Reported>}
 */
function tableOptions(signal) {
  const { columns } = text;
  return {
    name: "pipelines",
    label: text.table,
    key: (one) => one.key,
    words: (one) => [one.pipeline, one.query.query, one.query.status, one.query.failure].join(" "),
    sorted: ["pipeline", "up"],
    open: (one) => openQuery(one, state(one), signal),
    json: ({ series: _, key: __, seen, ...one }) => ({ ...one, seen: new Date(seen).toISOString() }),
    columns: [
      { name: "pipeline", label: columns.pipeline, cell: (one) => foreign(one.pipeline), sort: (one) => one.pipeline },
      { name: "query", label: columns.query, cell: (one) => foreign(one.query.query), sort: (one) => one.query.query },
      { name: "state", label: columns.state, cell: state, sort: (one) => stateOf(one)[1] },
      { name: "lag", label: columns.lag, number: true, cell: (one) => (one.query.lag === null ? h("span", { class: "muted" }, text.noLag) : count(one.query.lag)), sort: (one) => one.query.lag },
      { name: "rate", label: columns.rate, number: true, cell: (one) => rate(one.query.rows_per_second), sort: (one) => one.query.rows_per_second },
      { name: "rows", label: columns.rows, number: true, cell: (one) => count(one.query.rows), sort: (one) => one.query.rows },
      { name: "written", label: columns.written, number: true, hidden: true, cell: (one) => count(one.query.rows_written), sort: (one) => one.query.rows_written },
      { name: "batches", label: columns.batches, number: true, hidden: true, cell: (one) => count(one.query.batches), sort: (one) => one.query.batches },
      { name: "batch", label: columns.batch, number: true, cell: (one) => duration(one.query.batch_seconds), sort: (one) => one.query.batch_seconds },
      { name: "failures", label: columns.failures, number: true, hidden: true, cell: (one) => (one.query.failures ? status("bad", count(one.query.failures)) : "0"), sort: (one) => one.query.failures },
      { name: "failure", label: text.failure, cell: (one) => foreign(one.query.failure ?? ""), sort: (one) => one.query.failure },
      { name: "seen", label: columns.seen, number: true, cell: (one) => ago(one.seen), sort: (one) => one.seen },
    ],
  };
}
