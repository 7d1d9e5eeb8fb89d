/**
 * The first page: how it is, in a sentence; six figures; two charts; the most of each kind; the last alerts. A server
 * that nobody has used yet is shown three lines to begin with.
 */

import { OFTEN, SELDOM, poll } from "../data/poll.js";
import { accountActivity, operatorActivity } from "../data/activity.js";
import { h, replace } from "../dom/element.js";
import { text } from "../text/overview.js";
import { text as common } from "../text/common.js";
import { pageHead } from "../ui/blocks.js";
import { failure } from "../ui/empty.js";
import { Charts } from "./overview/charts.js";
import { drawFigures } from "./overview/figures.js";
import { LastAlerts } from "./overview/last_alerts.js";
import { Most } from "./overview/most.js";
import { sentence } from "./overview/sentence.js";
import { firstSteps } from "./overview/start.js";

/** @param {import("./index.js").Place} place */
export function show({ host, app, signal }) {
  const { watch } = app;
  const says = h("p", { class: "sentence" });
  const problem = h("div");
  const figures = h("div");
  const begin = h("div", { hidden: true });
  const charts = new Charts(watch, app.operator ? "operator" : "account", signal);
  const most = new Most(app, signal);
  /** @type {import("../data/activity.js").Activity | null} */
  let activity = null;

  const note = app.operator ? null : text.ofAccount(app.account?.who.account ?? "");
  replace(host, h("div", {}, pageHead(text.title, { sub: note }), says), problem, begin, figures, charts.element, most.element);
  const alerts = new LastAlerts(app, signal).element;
  alerts.classList.toggle("whole", !app.operator); // else it stands beside the connections
  most.element.append(alerts);

  const draw = () => {
    const why = watch.problems[app.operator ? "operator" : "account"];
    replace(problem, why !== null && failure(why));
    replace(says, sentence(app, activity));
    drawFigures(figures, app);
    charts.draw();
    const isNew = isUnused(app, activity);
    if (isNew && begin.hidden) replace(begin, firstSteps(app, signal));
    begin.hidden = !isNew;
  };
  watch.addEventListener("change", draw, { signal });
  watch.addEventListener("failed", draw, { signal });
  draw();
  poll({
    every: (answer) => ((answer?.total ?? 0) > 100 ? SELDOM : OFTEN * 2),
    signal,
    ask: () => (app.operator ? operatorActivity(app.operator) : accountActivity(/** @type {import("../nats/link.js").Link} */ (app.account))),
    show: (answer) => {
      activity = answer;
      most.show(answer);
      draw();
    },
    failed: (error) => most.fail(error),
  });
  document.title = `${common.page.overview} · ${app.any?.server.server_name ?? ""}`;
}

/**
 * True for a server, or an account, that nobody but this console uses.
 *
 * @param {import("../app.js").App} app
 * @param {import("../data/activity.js").Activity | null} activity
 */
function isUnused(app, activity) {
  const series = app.operator ? app.watch.all : app.watch.account;
  const connections = series.last("connections");
  const own = Number(Boolean(app.account)) + Number(Boolean(app.operator));
  return activity !== null && activity.total === 0 && connections !== null && connections <= own;
}
