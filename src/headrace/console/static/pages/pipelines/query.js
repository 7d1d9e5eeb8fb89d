/** One query at the side: its figures, its lag and rate since the page was opened, its last error. */

import { foreign, h } from "../../dom/element.js";
import { count, duration, rate } from "../../format.js";
import { text } from "../../text/pipelines.js";
import { ago, facts, when } from "../../ui/blocks.js";
import { Chart } from "../../ui/chart.js";
import { openPanel } from "../../ui/dialog.js";

/** A chart has the last so many seconds. */
const SHOWN_S = 1_800;

/**
 * @param {import("../../data/pipeline_reports.js").Reported} one
 * @param {HTMLElement} state
 * @param {AbortSignal} left
 */
export function openQuery({ pipeline, query, seen, series }, state, left) {
  const end = new AbortController();
  const signal = AbortSignal.any([left, end.signal]);
  const { columns } = text;
  const lag = new Chart({ label: text.lagChart, lines: [{ name: "lag", label: text.lagChart }], shown: count, signal });
  const rows = new Chart({ label: text.rateChart, lines: [{ name: "rows", label: text.rateChart }], shown: rate, signal });
  openPanel(
    foreign(`${pipeline} › ${query.query}`),
    { signal: left, closed: () => end.abort() },
    facts([
      [columns.state, state],
      [text.failure, query.failure ? h("pre", { class: "code" }, foreign(query.failure)) : null],
      [columns.lag, query.lag === null ? text.noLag : count(query.lag)],
      [columns.rows, count(query.rows)],
      [columns.written, count(query.rows_written)],
      [columns.batches, count(query.batches)],
      [columns.batch, duration(query.batch_seconds)],
      [columns.failures, count(query.failures)],
      [columns.seen, ago(seen)],
      ["Spark", query.time ? when(query.time) : null],
    ]),
    lag.element,
    rows.element,
  );
  lag.show(series.window(["lag"], SHOWN_S));
  rows.show(series.window(["rows"], SHOWN_S));
}
