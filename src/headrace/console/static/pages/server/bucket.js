/** The profile of the bucket that a server's streams are in: owner, epoch, lag, standbys, requests and their price. */

import { foreign, h } from "../../dom/element.js";
import { bytes, count, duration } from "../../format.js";
import { text } from "../../text/server.js";
import { card, facts, figure, figures, status } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";

/** @typedef {import("../../nats/servers.js").BucketState} BucketState */

const words = text.storage;
const dollars = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD" });

/** @param {BucketState | undefined} bucket */
export function bucketCards(bucket) {
  if (!bucket) return [card(words.bucket, {}, h("p", { class: "muted" }, words.noBucket))];
  return [
    card(
      words.bucket,
      {},
      h("p", { class: "muted" }, words.bucketHint),
      bucket.trouble && h("p", { class: "problem" }, foreign(words.trouble(duration(Math.round(bucket.trouble_seconds ?? 0)), bucket.trouble))),
      figures(
        figure(words.role, bucket.role === "owner" ? status("good", bucket.role) : status("info", bucket.role)),
        figure(words.lag, duration(bucket.lag_seconds), { note: bytes(bucket.lag_bytes) }),
        figure(words.commits, count(bucket.commits.count), { note: commitTimes(bucket) }),
        figure(words.stored, bytes(bucket.stored_bytes)),
        figure(words.price, dollars.format(bucket.price_month_usd), { note: words.month }),
      ),
      about(bucket),
    ),
    card(words.requests, { flush: true }, requests(bucket)),
    bucket.role === "owner" && card(words.standbys, { flush: true }, standbys(bucket)),
  ].filter((one) => one !== false);
}

/** @param {BucketState} bucket */
function commitTimes({ commits }) {
  if (commits.p50_seconds === undefined) return null;
  return [`${words.p50} ${duration(commits.p50_seconds)}`, commits.p99_seconds !== undefined && `${words.p99} ${duration(commits.p99_seconds)}`].filter(Boolean).join(", ");
}

/** @param {BucketState} bucket */
function about(bucket) {
  return facts([
    [words.url, foreign(bucket.url, "mono")],
    [words.shard, foreign(bucket.shard)],
    [words.owner, bucket.owner ? foreign(bucket.owner) : null],
    [words.epoch, count(bucket.epoch)],
    [words.number, count(bucket.number)],
    [words.snapshot, count(bucket.snapshot)],
    [words.promise, words.promises[bucket.commit] ?? foreign(bucket.commit)],
    [words.lagPuts, bucket.role === "owner" ? null : count(bucket.behind)],
    [words.cached, bytes(bucket.cached_bytes)],
    [words.lastError, bucket.last_error ? foreign(bucket.last_error) : null],
  ]);
}

/** @param {BucketState} bucket */
function requests(bucket) {
  if (!bucket.requests.length) return empty(words.noRequests);
  const heading = (/** @type {string} */ name) => h("th", { scope: "col", class: "number" }, name);
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table", "aria-label": words.requests },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, words.kind), h("th", { scope: "col" }, words.outcome), heading(words.count), heading(words.sent), heading(words.received))),
      h("tbody", {}, bucket.requests.map((one) => h("tr", {}, h("td", {}, foreign(one.kind)), h("td", {}, foreign(one.outcome)), h("td", { class: "number" }, count(one.count)), h("td", { class: "number" }, bytes(one.sent_bytes)), h("td", { class: "number" }, bytes(one.received_bytes))))),
    ),
  );
}

/** @param {BucketState} bucket */
function standbys({ standbys: found = [] }) {
  if (!found.length) return empty(words.noStandby);
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table", "aria-label": words.standbys },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, words.standby), h("th", { scope: "col", class: "number" }, words.behindBy), h("th", { scope: "col", class: "number" }, words.heard))),
      h("tbody", {}, found.map((one) => h("tr", {}, h("td", {}, foreign(one.server)), h("td", { class: "number" }, count(one.behind)), h("td", { class: "number" }, text.agoSeconds(duration(one.heard_seconds)))))),
    ),
  );
}
