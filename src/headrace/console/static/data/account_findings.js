/**
 * What is not right in the account by its figures over time: consumers that fall behind, storage that is nearly used
 * up. Of the shape of findings.js, which finds what one look at servers shows.
 */

import { to } from "../app.js";
import { bytes, count } from "../format.js";
import { text } from "../text/alerts.js";

/** @typedef {import("./findings.js").Finding} Finding */
/** @typedef {import("./findings.js").Symptom} Symptom */
/** @typedef {import("../nats/jetstream.js").AccountInfo} AccountInfo */
/** @typedef {{ stream: string, consumer: string, before: number, now: number }} Growth */

const NEARLY = 0.8;

/**
 * @param {Growth[]} growing
 * @param {AccountInfo | null} account
 * @returns {Finding[]}
 */
export function accountFindings(growing, account) {
  const lag = growing.map(({ stream, consumer, before, now }) => ({ place: `${stream} › ${consumer}`, words: text.lag(count(before), count(now)), href: to("consumers", [stream, consumer]) }));
  const full = account ? [...nearlyFull(text.storage, account.storage, account.limits?.max_storage), ...nearlyFull(text.memory, account.memory, account.limits?.max_memory)] : [];
  return [finding("lag-grows", lag), finding("account-nearly-full", full)].filter((one) => one.symptoms.length);
}

/**
 * @param {string} what
 * @param {number} used
 * @param {number | undefined} limit
 * @returns {Symptom[]}
 */
function nearlyFull(what, used, limit) {
  return limit && limit > 0 && used >= limit * NEARLY ? [{ place: what, words: text.used(bytes(used), bytes(limit)), href: to("streams") }] : [];
}

/**
 * @param {keyof typeof text.meanings} id
 * @param {Symptom[]} symptoms
 * @returns {Finding}
 */
function finding(id, symptoms) {
  return { id: /** @type {Finding["id"]} */ (/** @type {string} */ (id)), severity: "warning", ...text.meanings[id], symptoms };
}
