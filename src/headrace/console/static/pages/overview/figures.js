/** Six figures with a line of the last ten minutes each. */

import { h, replace } from "../../dom/element.js";
import { brief, byteRate, bytes, rate } from "../../format.js";
import { FIGURES } from "../../data/watch.js";
import { NoRight } from "../../nats/errors.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/overview.js";
import { figure, figures } from "../../ui/blocks.js";
import { sparkline } from "../../ui/chart.js";

const SECONDS = 600;

/** @type {Record<string, (value: number | null) => string>} */
const SHOWN = { msgs_in: rate, msgs_out: rate, bytes_in: byteRate, bytes_out: byteRate, connections: brief, storage: bytes };

/**
 * @param {HTMLElement} place
 * @param {import("../../app.js").App} app
 */
export function drawFigures(place, app) {
  const series = app.operator ? app.watch.all : app.watch.account;
  const [, ...columns] = series.window(FIGURES, SECONDS);
  replace(
    place,
    figures(
      ...FIGURES.map((name, column) =>
        figure(text.figures[/** @type {keyof typeof text.figures} */ (name)], SHOWN[name](series.last(name)), {
          note: name === "storage" ? storageNote(app) : h("span", { title: text.peakHint }, text.peak(SHOWN[name](peak(columns[column])))),
          below: sparkline(columns[column]),
        }),
      ),
    ),
  );
}

/** @param {(number | null)[]} values */
function peak(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? Math.max(...known) : null;
}

/** @param {import("../../app.js").App} app */
function storageNote(app) {
  if (!app.operator) {
    if ((app.watch.jetstreamProblem ?? app.watch.problems.account) instanceof NoRight) return text.noRight;
    const limit = app.watch.jetstream?.limits.max_storage;
    return limit === undefined ? text.noJetStream : limit > 0 ? text.ofLimit(bytes(limit)) : common.unlimited;
  }
  const limits = app.watch.byName.map((one) => one.stats.jetstream?.config?.max_storage ?? 0);
  const sum = limits.reduce((total, limit) => total + limit, 0);
  return sum > 0 ? text.ofLimit(bytes(sum)) : text.noJetStream;
}
