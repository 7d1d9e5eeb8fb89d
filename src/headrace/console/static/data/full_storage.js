/** Storage that is nearly used up: of servers, of the account, of streams with a limit that does not make room by itself. */

/** @typedef {import("./watch.js").Watch} Watch */
/** @typedef {import("../nats/jetstream.js").StreamInfo} StreamInfo */

const NEARLY = 0.8;
const FULL = 0.95;

/**
 * @param {Pick<Watch, "servers" | "jetstream">} watch
 * @param {StreamInfo[]} streams
 * @returns {import("./alerts.js").Finding[]}
 */
export function fullStorage(watch, streams) {
  const found = [];
  for (const { server, stats } of watch.servers.values()) {
    const { config, stats: used } = stats.jetstream ?? {};
    found.push(finding("serverStorage", [server.name], used?.storage, config?.max_storage, `#/server/${encodeURIComponent(server.id)}`));
    found.push(finding("serverMemory", [server.name], used?.memory, config?.max_memory, `#/server/${encodeURIComponent(server.id)}`));
  }
  if (watch.jetstream) {
    found.push(finding("accountStorage", [], watch.jetstream.storage, watch.jetstream.limits?.max_storage, "#/streams"));
    found.push(finding("accountMemory", [], watch.jetstream.memory, watch.jetstream.limits?.max_memory, "#/streams"));
  }
  for (const { config, state } of streams) {
    if (config.discard !== "new") continue; // the others make room by dropping their oldest messages
    const href = `#/streams/${encodeURIComponent(config.name)}`;
    found.push(finding("streamBytes", [config.name], state.bytes, config.max_bytes, href));
    if (!config.discard_new_per_subject) found.push(finding("streamMessages", [config.name], state.messages, config.max_msgs, href));
  }
  return found.filter((one) => one !== null);
}

/**
 * @param {string} kind
 * @param {string[]} names
 * @param {number | undefined} used
 * @param {number | undefined} limit
 * @param {string} href
 * @returns {import("./alerts.js").Finding | null}
 */
function finding(kind, names, used, limit, href) {
  if (!used || !limit || limit <= 0 || used < limit * NEARLY) return null;
  return { key: `${kind} ${JSON.stringify(names)}`, kind, tone: used >= limit * FULL ? "bad" : "warn", since: 0, href, args: [...names, used, limit] };
}
