/** The orders that servers give their connections in, and how clients of several servers are put together in one. */

import { age, asDate, goSeconds } from "../../format.js";

/** @typedef {import("../../nats/connections.js").Client} Client */

/**
 * The orders that a server can give its connections in, by the name of their column. `direction` is the one it has.
 * @type {Record<string, { option: string, direction: 1 | -1, value: (client: Client) => number | string, closed?: boolean }>}
 */
export const ORDERS = {
  cid: { option: "cid", direction: 1, value: (client) => client.cid },
  subs: { option: "subs", direction: -1, value: (client) => client.subscriptions },
  pending: { option: "pending", direction: -1, value: (client) => client.pending_bytes },
  from: { option: "msgs_from", direction: -1, value: (client) => client.in_msgs },
  to: { option: "msgs_to", direction: -1, value: (client) => client.out_msgs },
  bytesFrom: { option: "bytes_from", direction: -1, value: (client) => client.in_bytes },
  bytesTo: { option: "bytes_to", direction: -1, value: (client) => client.out_bytes },
  rtt: { option: "rtt", direction: -1, value: (client) => goSeconds(client.rtt) ?? 0 },
  idle: { option: "idle", direction: -1, value: (client) => age(client.last_activity) ?? 0 },
  stop: { option: "stop", direction: -1, value: (client) => asDate(client.stop)?.getTime() ?? 0, closed: true },
  reason: { option: "reason", direction: 1, value: (client) => client.reason ?? "", closed: true },
};

/**
 * How clients are put together that several servers gave in an order.
 * @param {string} name of a column
 * @returns {(a: Client, b: Client) => number}
 */
export function comparison(name) {
  const { value, direction } = ORDERS[name] ?? ORDERS.cid;
  return (a, b) => {
    const [mine, its] = [value(a), value(b)];
    const order = typeof mine === "number" && typeof its === "number" ? mine - its : String(mine).localeCompare(String(its));
    return order * direction || a.cid - b.cid;
  };
}
