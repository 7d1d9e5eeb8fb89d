/** What a page says of a table. Types only. */

/** @typedef {import("../dom/element.js").Child} Child */

/**
 * @template R
 * @typedef {object} Column
 * @property {string} name unique in the table; kept where a person hides it
 * @property {string} label
 * @property {(row: R) => Child} cell
 * @property {(row: R) => string | number | null | undefined} [sort] what the column is sorted by; without it, it is not
 * @property {boolean} [number] aligned to the right
 * @property {boolean} [wide] takes the space that others leave, as a payload does
 * @property {boolean} [hidden] hidden until a person shows it
 * @property {string} [hint] shown where one hovers over the heading
 */

/**
 * @template R
 * @typedef {object} TableOptions
 * @property {string} name
 * @property {string} label of the table, for who does not see it
 * @property {Column<R>[]} columns
 * @property {(row: R) => string} key
 * @property {(row: R) => string} [words] what a filter looks in; without it there is no filter
 * @property {(row: R) => void} [open] a row was chosen
 * @property {(row: R) => unknown} [json] what "copy as JSON" gives; without it the row itself
 * @property {[string, "up" | "down"]} [sorted] the column and its direction at first
 * @property {(column: string, direction: "up" | "down") => void} [sort] sorts at the server, in the place of here
 * @property {(column: string, direction: "up" | "down") => void} [arranged] told when a person sorts by another column; the table sorts
 *   the rows that it has all the same
 * @property {string} [filter] what is filtered by at first
 * @property {(typed: string) => void} [filtered] told when a person filters by something else
 * @property {(rows: R[]) => void} [seen] the rows that are in view now, after the view changed
 * @property {boolean} [pick] rows can be picked
 * @property {(rows: R[]) => void} [picked] other rows are picked
 * @property {Child[]} [tools] beside the filter
 * @property {Child[]} [foot] at the end of the line below
 * @property {() => Child} [empty] what stands where there is no row
 * @property {boolean} [plain] no tools, no foot: a short list on a page with other things
 */

export {};
