/** How it is, in a sentence of which each clause leads to where one sees more. */

import { to } from "../../app.js";
import { SILENT_MS } from "../../data/watch.js";
import { h } from "../../dom/element.js";
import { text } from "../../text/overview.js";
import { status } from "../../ui/blocks.js";

/** So many messages that nobody has processed are "behind". */
const BEHIND = 1_000;

/**
 * @param {import("../../app.js").App} app
 * @param {import("../../data/activity.js").Activity | null} activity
 * @returns {(Node | string)[]}
 */
export function sentence(app, activity) {
  const problem = app.watch.problems[app.operator ? "operator" : "account"];
  const clauses = [problem !== null ? h("span", {}, status("warn", text.noFigures)) : app.operator ? serversClause(app) : h("span", {}, status("good", text.accountAnswers))];
  if (activity) {
    const behind = activity.consumers.filter((one) => one.unprocessed >= BEHIND).length;
    clauses.push(h("a", { href: to("consumers") }, behind ? status("warn", text.behind(behind)) : text.noneBehind));
  }
  const { slow } = app.watch;
  if (slow) clauses.push(h("a", { href: to("alerts") }, status("warn", text.slow(slow))));
  return clauses.flatMap((clause) => [clause, " "]);
}

/** @param {import("../../app.js").App} app */
function serversClause(app) {
  const servers = app.watch.byName;
  if (!servers.length) return h("span", {}, text.noAnswer);
  const silent = servers.filter((one) => Date.now() - one.seen > SILENT_MS).length;
  const words = silent ? status("bad", text.silent(silent, servers.length)) : status("good", text.servers(servers.length));
  return h("a", { href: to("server") }, words);
}
