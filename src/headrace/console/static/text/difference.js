/** Texts of the view of differences. */

export const text = {
  label: "Difference",
  gone: "removed:",
  fresh: "added:",
  nothing: "Both are the same.",
  same: (/** @type {number} */ count) => (count === 1 ? "1 line is the same" : `${count} lines are the same`),
  more: (/** @type {number} */ count) => (count === 1 ? "1 more line is not shown." : `${count} more lines are not shown.`),
};
