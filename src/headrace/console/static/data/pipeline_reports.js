/**
 * The reports of pipelines (`headrace pipeline run --report SUBJECT`): the newest of each query, and its lag and rates
 * over the time that the page is open. Source: docs/pipelines.md; pipelines/report.py.
 */

import { Series } from "./series.js";

/**
 * @typedef {{ query: string, status: string, rows: number, rows_written: number | null, batches: number, lag: number | null, rows_per_second: number,
 *   input_rows_per_second: number, batch_seconds: number | null, failures: number, failure: string | null, time: string | null }} Query
 * @typedef {{ key: string, pipeline: string, seen: number, query: Query, series: Series }} Reported
 */

/** A run tells of itself every 5 s: of one that is silent so long nobody knows, in ms. */
export const SILENT_MS = 20_000;
/** So many queries are kept: a name of others may be another one each time. */
export const MOST = 1_000;

export class PipelineReports {
  /** By pipeline and query. @type {Map<string, Reported>} */
  queries = new Map();
  /** Messages on the subject that are no report. */
  strange = 0;

  /**
   * Take one report. One that is none is counted.
   *
   * @param {Uint8Array} data
   * @param {number} now ms
   */
  take(data, now) {
    const report = read(data);
    if (!report) {
      this.strange += 1;
      return;
    }
    for (const query of report.queries) {
      const key = JSON.stringify([report.pipeline, query.query]);
      const known = this.queries.get(key);
      if (!known && this.queries.size >= MOST) continue;
      const series = known?.series ?? new Series(["lag", "rows"]);
      series.add(now / 1_000, { lag: query.lag, rows: query.rows_per_second });
      this.queries.set(key, { key, pipeline: report.pipeline, seen: now, query, series });
    }
  }
}

/**
 * A report, or null where the text is none.
 * @param {Uint8Array} data
 * @returns {{ pipeline: string, queries: Query[] } | null}
 */
function read(data) {
  /** @type {any} */
  let value;
  try {
    value = JSON.parse(new TextDecoder().decode(data));
  } catch {
    return null;
  }
  if (!value || typeof value.pipeline !== "string" || !Array.isArray(value.queries)) return null;
  return { pipeline: value.pipeline, queries: value.queries.filter((/** @type {any} */ one) => one && typeof one.query === "string").map(asQuery) };
}

/**
 * @param {Record<string, unknown>} said
 * @returns {Query}
 */
function asQuery(said) {
  const number = (/** @type {string} */ name) => (typeof said[name] === "number" ? /** @type {number} */ (said[name]) : 0);
  const numberOrNull = (/** @type {string} */ name) => (typeof said[name] === "number" ? /** @type {number} */ (said[name]) : null);
  const words = (/** @type {string} */ name) => (typeof said[name] === "string" && said[name] ? /** @type {string} */ (said[name]) : null);
  return {
    query: words("query") ?? "", status: words("status") ?? "", rows: number("rows"), rows_written: numberOrNull("rows_written"), batches: number("batches"), lag: numberOrNull("lag"),
    rows_per_second: number("rows_per_second"), input_rows_per_second: number("input_rows_per_second"), batch_seconds: numberOrNull("batch_seconds"), failures: number("failures"),
    failure: words("failure"), time: words("time"),
  };
}
