/** The filter and the order of a table in the address: a reload, a way back and a link that is sent show the same. */

import { addressQuery, keepInAddress } from "../dom/address_query.js";

/**
 * Options of a table with what the address says of it, where that makes sense; what a person changes is kept there.
 *
 * @template R
 * @param {import("./table_options.js").TableOptions<R>} options `sorted`: the usual order, which the address leaves out
 * @param {string} [prefix] of its words, where a page has several tables
 * @returns {import("./table_options.js").TableOptions<R>}
 */
export function inAddress(options, prefix = "") {
  const asked = addressQuery();
  const [sort, direction, find] = [`${prefix}sort`, `${prefix}direction`, `${prefix}find`];
  const column = options.columns.find((one) => one.sort && one.name === asked.get(sort));
  return {
    ...options,
    sorted: column ? [column.name, asked.get(direction) === "down" ? "down" : "up"] : options.sorted,
    filter: asked.get(find) ?? options.filter,
    arranged: (name, towards) => {
      const isUsual = options.sorted?.[0] === name && options.sorted[1] === towards;
      keepInAddress({ [sort]: isUsual ? null : name, [direction]: isUsual ? null : towards });
      options.arranged?.(name, towards);
    },
    filtered: (typed) => {
      keepInAddress({ [find]: typed.trim() });
      options.filtered?.(typed);
    },
  };
}
