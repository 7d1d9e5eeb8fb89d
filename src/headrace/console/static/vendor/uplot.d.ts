/** The types of uplot.js, for `tsc` only: the package's own (requirements/console). */
export { default } from "uplot";
