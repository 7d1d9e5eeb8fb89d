/** Texts of the difference between two configurations. */

export const text = {
  none: "Nothing is changed.",
  absent: "not set",
  columns: { field: "Field", before: "Before", after: "After" },
};
