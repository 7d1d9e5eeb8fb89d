/** What differs between two configurations, field by field: what stands in it before, and after. */

import { foreign, h } from "../dom/element.js";
import { bytes, durationNs } from "../format.js";
import { text } from "../text/changes.js";
import { openForm } from "./dialog.js";

/** @typedef {{ field: string, before: unknown, after: unknown }} Change */

/**
 * The fields in which two objects of JSON differ; those of objects inside them with dots between.
 *
 * @param {Record<string, any>} before
 * @param {Record<string, any>} after
 * @param {string} [inside]
 * @returns {Change[]}
 */
export function changesBetween(before, after, inside = "") {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.flatMap((name) => {
    const [was, is] = [before[name], after[name]];
    if (isObject(was) && isObject(is)) return changesBetween(was, is, `${inside}${name}.`);
    return JSON.stringify(was) === JSON.stringify(is) ? [] : [{ field: inside + name, before: was, after: is }];
  });
}

/** @param {Change[]} changes */
export function changesTable(changes) {
  if (!changes.length) return h("p", { class: "muted" }, text.none);
  const names = text.columns;
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table changes" },
      h("thead", {}, h("tr", {}, [names.field, names.before, names.after].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, changes.map(({ field, before, after }) => h("tr", {}, h("th", { scope: "row", class: "mono" }, foreign(field)), h("td", {}, value("del", field, before)), h("td", {}, value("ins", field, after))))),
    ),
  );
}

/**
 * Show what would change, and change it when that is wanted.
 *
 * @param {string} title
 * @param {{ before: Record<string, any>, after: Record<string, any>, verb: string, run: () => Promise<unknown>, signal: AbortSignal }} options
 */
export function openChanges(title, { before, after, verb, run, signal }) {
  const changes = changesBetween(before, after);
  return openForm(title, { wide: true, fields: [changesTable(changes)], verb, isRight: () => changes.length > 0, run, signal });
}

/** Fields of configurations that are nanoseconds, and bytes: they are said as people say them, too. */
const NANOSECONDS = /(^|\.)(max_age|duplicate_window|ack_wait|inactive_threshold|idle_heartbeat|max_expires|subject_delete_marker_ttl|priority_timeout)$/;
const BYTES = /(^|\.)(max_bytes|max_msg_size)$/;

/**
 * @param {"del" | "ins"} tag
 * @param {string} field
 * @param {unknown} of
 */
function value(tag, field, of) {
  if (of === undefined) return h("span", { class: "muted" }, text.absent);
  const said = typeof of !== "number" || of <= 0 ? "" : NANOSECONDS.test(field) ? durationNs(of) : BYTES.test(field) ? bytes(of) : "";
  return h("span", {}, h(tag, { class: "mono" }, foreign(typeof of === "string" ? of : JSON.stringify(of))), said && h("span", { class: "muted" }, ` (${said})`));
}

/** @param {unknown} of @returns {of is Record<string, any>} */
function isObject(of) {
  return of !== null && typeof of === "object" && !Array.isArray(of);
}
