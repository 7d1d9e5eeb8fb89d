/** The icons, drawn on a grid of 16 with lines of one width. An icon stands beside a word, or its button has a label. */

import { svg } from "../dom/element.js";

const PATHS = /** @type {const} */ ({
  overview: "M2 9h3l2-5 3 9 2-4h2",
  live: "M8 8h.01M5 5a4.2 4.2 0 0 0 0 6M11 5a4.2 4.2 0 0 1 0 6M3 3a7 7 0 0 0 0 10M13 3a7 7 0 0 1 0 10",
  streams: "M2 4h12M2 8h12M2 12h12",
  consumers: "M2 5h7M2 8h5M2 11h7M10 8h4M12 6l2 2-2 2",
  keyvalue: "M6.5 8a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM6.5 8H14v2.5M11 8v2",
  objects: "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6",
  services: "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 2v1.5M8 12.5V14M2 8h1.5M12.5 8H14M3.8 3.8l1 1M11.2 11.2l1 1M3.8 12.2l1-1M11.2 4.8l1-1",
  connections: "M6 10l4-4M5 8L3.5 9.5a2.1 2.1 0 0 0 3 3L8 11M8 5l1.5-1.5a2.1 2.1 0 0 1 3 3L11 8",
  accounts: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c.6-2.5 2.5-3.5 5-3.5s4.4 1 5 3.5",
  map: "M4 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM12 7.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM6 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM5.4 4.4l5.2 1.3M11.2 7.3l-4 3.7M4.4 5.4l1.2 5.2",
  streaming: "M2 5c2-2 4 2 6 0s4 2 6 0M2 11c2-2 4 2 6 0s4 2 6 0M2 8h12",
  pipelines: "M2 4h4v3H2zM10 9h4v3h-4zM6 5.5h3v5h1",
  tables: "M2 3h12v10H2zM2 6.5h12M2 10h12M6.5 6.5V13",
  alerts: "M8 2.5L14 13H2zM8 6.5v3M8 11.3h.01",
  server: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5L14 14",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  close: "M4 4l8 8M12 4l-8 8",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5l7 4.5-7 4.5z",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  light: "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  system: "M2 3h12v8H2zM6 13.5h4",
  up: "M8 12.5v-9M4.5 7L8 3.5 11.5 7",
  down: "M8 3.5v9M4.5 9L8 12.5 11.5 9",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  plus: "M8 3v10M3 8h10",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9M7 7v4M9 7v4",
  edit: "M3 13l.5-3L10.5 3l2.5 2.5L6 12.5z",
  download: "M8 2.5v7.5M5 7l3 3 3-3M3 13h10",
  upload: "M8 10V2.5M5 5.5l3-3 3 3M3 13h10",
  back: "M9.5 3.5L5 8l4.5 4.5",
  next: "M6.5 3.5L11 8l-4.5 4.5",
  lock: "M4 7.5h8v6H4zM5.5 7.5v-2a2.5 2.5 0 0 1 5 0v2",
});

/** @typedef {keyof typeof PATHS} Icon */

/**
 * @param {Icon} name
 * @param {number} [size]
 */
export function icon(name, size = 16) {
  return svg(
    "svg",
    { viewBox: "0 0 16 16", width: size, height: size, "aria-hidden": "true", focusable: "false" },
    svg("path", {
      d: PATHS[name], fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round", "stroke-linejoin": "round",
    }),
  );
}
