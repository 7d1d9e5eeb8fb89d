/** The list that is shown, as commands for a shell. */

import { shellWord } from "../../ui/blocks.js";

/** The orders of `headrace server report connections`, by the name of a column. */
const SORTS = /** @type {Record<string, string>} */ ({
  cid: "cid", subs: "subs", pending: "pending", from: "in-msgs", fromRate: "in-msgs", to: "out-msgs", toRate: "out-msgs", bytesFrom: "in-bytes", bytesTo: "out-bytes",
  name: "name", account: "account", server: "server",
});

/**
 * @param {{ isOperator: boolean, isClosed: boolean, sort?: string, account?: string, user?: string, subject?: string }} shown
 */
export function commands({ isOperator, isClosed, sort, account, user, subject }) {
  const order = SORTS[sort ?? ""];
  /** @param {string} flag @param {string | undefined} value */
  const flag = (flag, value) => (value ? ` ${flag} ${shellWord(value)}` : "");
  if (!isOperator) return [`headrace account report connections`];
  return [
    `headrace server report connections${flag("--sort", order)}${isClosed ? " --state closed" : ""}${flag("--account", account)}${flag("--username", user)}${flag("--subject", subject)}`,
    ...(isClosed ? [] : ["headrace top"]),
  ];
}
