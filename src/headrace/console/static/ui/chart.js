/**
 * Lines over time, drawn by uPlot in the colours of the palette, with the same numbers as a table beside it.
 * A sparkline is the smallest of them, without axes.
 */

import uPlot from "../vendor/uplot.js";
import { h, replace, svg } from "../dom/element.js";
import { clockTime } from "../format.js";
import { text } from "../text/common.js";

/** @typedef {{ name: string, label: string }} Line */

const HEIGHT = 200;
/** Seconds between times of the axis: whole ones, so that no time stands there twice. */
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200];
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
/** A line needs so many points; the axis of one alone would have no times. */
const FEWEST = 2;
/** A chart as a table shows the newest of its points. */
const ROWS = 30;

export class Chart {
  /**
   * @param {{ label: string, lines: Line[], shown: (value: number | null) => string, isBinary?: boolean, signal: AbortSignal }} options `shown`:
   *   how a value is written; up to six lines; `isBinary`: by 1024, as bytes are
   */
  constructor({ label, lines, shown, isBinary = false, signal }) {
    this.#steps = isBinary ? BINARY_STEPS : undefined;
    this.#lines = lines;
    this.#shown = shown;
    this.#legend = h("div", { class: "legend" });
    this.#plotBox = h("div", { class: "plot", role: "img", "aria-label": label });
    this.#tableBox = h("div", { class: "table-box" });
    const details = h("details", {}, h("summary", { class: "muted small" }, text.asTable), this.#tableBox);
    details.addEventListener("toggle", () => this.#drawTable(details.open));
    this.#few = h("p", { class: "muted small" }, text.chartWaits);
    replace(this.#plotBox, this.#few);
    this.element = h("div", { class: "chart" }, this.#legend, this.#plotBox, details);
    this.#details = details;
    const observer = new ResizeObserver(() => this.#resize());
    observer.observe(this.#plotBox);
    window.addEventListener("themechange", () => this.#make(), { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#make(), { signal });
    signal.addEventListener("abort", () => {
      observer.disconnect();
      this.#plot?.destroy();
    });
  }

  /** The distances that lines of the grid may have. @type {number[] | undefined} */
  #steps;
  /** @type {Line[]} */
  #lines;
  /** @type {(value: number | null) => string} */
  #shown;
  /** @type {HTMLElement} */
  #legend;
  /** @type {HTMLElement} */
  #plotBox;
  /** @type {HTMLElement} */
  #tableBox;
  /** What stands where no line can be drawn yet. @type {HTMLElement} */
  #few;
  /** @type {HTMLDetailsElement} */
  #details;
  /** @type {uPlot | null} */
  #plot = null;
  /** @type {[number[], ...(number | null)[][]]} */
  #data = [[]];

  /**
   * Show these values: seconds since 1970, then a column for each line.
   * @param {[number[], ...(number | null)[][]]} data
   */
  show(data) {
    this.#data = data;
    if (this.#plot && data[0].length >= FEWEST) this.#plot.setData(/** @type {any} */ (data));
    else this.#make();
    replace(
      this.#legend,
      this.#lines.map((line, place) =>
        h("span", { class: "series" }, h("span", { class: `swatch s${place + 1}` }), `${line.label} ${this.#shown(data[place + 1]?.at(-1) ?? null)}`),
      ),
    );
    if (this.#details.open) this.#drawTable(true);
  }

  #make() {
    const width = this.#plotBox.clientWidth;
    if (!width) return;
    this.#plot?.destroy();
    this.#plot = null;
    this.#few.hidden = this.#data[0].length >= FEWEST;
    if (!this.#few.hidden) return;
    const style = getComputedStyle(document.documentElement);
    /** @param {string} name */
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), font: `12px ${colour("--font")}`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    this.#plot = new uPlot(
      {
        width,
        height: HEIGHT,
        padding: [8, 28, 0, 0],
        cursor: { y: false, points: { size: 6 } },
        legend: { show: false },
        scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [
          { ...axis, grid: { show: false }, space: 80, incrs: TIME_STEPS, values: (_plot, moments) => moments.map((moment) => clockTime(moment * 1000)) },
          { ...axis, size: 76, incrs: this.#steps, values: (_plot, values) => values.map((value) => this.#shown(value)) },
        ],
        series: [
          {},
          ...this.#lines.map((line, place) => ({ label: line.label, stroke: colour(`--chart-${place + 1}`), width: 1.75, points: { show: false }, spanGaps: false })),
        ],
      },
      /** @type {any} */ (this.#data),
      this.#plotBox,
    );
  }

  #resize() {
    if (!this.#plot) this.#make();
    else if (this.#plotBox.clientWidth && this.#plotBox.clientWidth !== this.#plot.width) this.#plot.setSize({ width: this.#plotBox.clientWidth, height: HEIGHT });
  }

  /** @param {boolean} isOpen */
  #drawTable(isOpen) {
    if (!isOpen) return this.#tableBox.replaceChildren();
    const [times, ...columns] = this.#data;
    const newest = times.map((_, place) => place).slice(-ROWS).reverse();
    return replace(
      this.#tableBox,
      h(
        "table",
        { class: "table" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text.time), this.#lines.map((line) => h("th", { scope: "col", class: "number" }, line.label)))),
        h("tbody", {}, newest.map((place) => h("tr", {}, h("td", {}, clockTime(times[place] * 1000)), columns.map((column) => h("td", { class: "number" }, this.#shown(column[place])))))),
      ),
    );
  }
}

/**
 * A small line without axes; an empty place where there is only one point.
 * @param {(number | null)[]} values
 */
export function sparkline(values) {
  const known = values.filter((value) => value !== null);
  const box = svg("svg", { class: "sparkline", viewBox: "0 0 100 28", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (known.length < 2) return box;
  const high = Math.max(...known, 1e-9);
  const step = 100 / (values.length - 1);
  const points = values.map((value, place) => `${(place * step).toFixed(2)},${(26 - ((value ?? 0) / high) * 24).toFixed(2)}`);
  box.append(svg("path", { class: "area", d: `M0,28 L${points.join(" L")} L100,28 Z` }), svg("path", { d: `M${points.join(" L")}` }));
  return box;
}
