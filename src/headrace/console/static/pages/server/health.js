/** What a server says of its health, with each reason. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, duration } from "../../format.js";
import { text } from "../../text/server.js";
import { card, facts, status } from "../../ui/blocks.js";

/** @typedef {import("../../nats/servers.js").Health} Health */

/**
 * @param {HTMLElement} body
 * @param {Health} health
 */
export function drawHealth(body, health) {
  const words = text.health;
  const isWell = health.status === "ok";
  const problems = health.errors?.length ? health.errors : health.error ? [{ type: "", error: health.error }] : [];
  const late = Object.entries(health.bucket ?? {});
  replace(
    body,
    card(null, {}, isWell ? status("good", words.ok) : status("bad", `${words.bad}: ${health.status}`), isWell && h("p", { class: "muted" }, words.okNext)),
    problems.length > 0 && card(words.problems, { flush: true }, problemTable(problems)),
    late.length > 0 && card(words.late, {}, facts(late.map(([name, bucket]) => [name, words.lateRow(duration(bucket.lag_seconds), bytes(bucket.lag_bytes))]))),
  );
}

/** @param {{ type?: string, error: string, account?: string, stream?: string, consumer?: string }[]} problems */
function problemTable(problems) {
  const words = text.health;
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table", "aria-label": words.problems },
      h("thead", {}, h("tr", {}, [words.type, words.where, words.error].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, problems.map((one) => h("tr", {}, h("td", {}, foreign(one.type)), h("td", {}, one.stream || one.account ? foreign(words.stream(one.account ?? "", one.stream ?? "", one.consumer ?? "")) : words.whole), h("td", {}, foreign(one.error))))),
    ),
  );
}
