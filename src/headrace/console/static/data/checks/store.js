/** Checks of what is kept: what survives a power failure, and how full it is. Texts are in text/findings.js. */

import { bytes, durationNs } from "../../format.js";
import { to } from "../../app.js";
import { found as words } from "../../text/findings.js";

/** @typedef {import("../evidence.js").Evidence} Evidence */
/** @typedef {import("../findings.js").Check} Check */
/** @typedef {import("../findings.js").Symptom} Symptom */

const TEMPORARY = ["/tmp", "/var/tmp", "/dev/shm", "/run"];
/** The share of a limit from which on it is nearly reached: the console says it sooner than `headrace doctor`, at 80 %. */
const FULL = 0.8;

/** @type {Check[]} */
export const storeChecks = [
  { id: "temporary-store", severity: "danger", look: temporaryStore },
  { id: "sync-interval", severity: "warning", look: syncInterval },
  { id: "jetstream-nearly-full", severity: "warning", look: nearlyFull },
];

/** @param {Evidence} evidence @returns {Symptom[]} */
function temporaryStore({ servers }) {
  return servers.flatMap(({ id, name, varz }) => {
    const directory = varz.jetstream?.config?.store_dir ?? "";
    return TEMPORARY.some((one) => directory === one || directory.startsWith(`${one}/`)) ? [{ place: name, words: words.temporary(directory), href: to("server", [id, "storage"]) }] : [];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function syncInterval({ servers }) {
  return servers.flatMap(({ id, name, varz }) => {
    const config = varz.jetstream?.config;
    return config?.sync_interval && config.sync_interval > 0 && !config.sync_always ? [{ place: name, words: words.sync(durationNs(config.sync_interval)), href: to("server", [id, "storage"]) }] : [];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function nearlyFull({ servers }) {
  return servers.flatMap(({ id, name, varz }) => {
    const { config, stats } = varz.jetstream ?? {};
    return /** @type {const} */ (["memory", "storage"]).flatMap((what) => {
      const most = config?.[`max_${what}`] ?? 0;
      const used = stats?.[what] ?? 0;
      return most > 0 && used >= most * FULL ? [{ place: name, words: words.used(what, bytes(used), bytes(most)), href: to("server", [id, "storage"]) }] : [];
    });
  });
}
