/**
 * The state of tables that a server archives streams and channels into, by its small service. Source: docs/tables.md.
 * Never here: how it looks.
 */

import { NobodyThere, StrangeAnswer } from "./errors.js";

/** @typedef {import("./link.js").Link} Link */
/**
 * One table. `last_sequence`: of the stream or channel; `archived_sequence`: up to it everything is in the table.
 * @typedef {{ kind: string, account: string, name: string, last_sequence: number, archived_sequence: number, files: number, bytes: number,
 *   last_run: string, error: string, verified: string }} TableState
 */

export const TABLES_STATE = "$HEADRACE.TABLES.STATE";

/**
 * The tables of all servers that archive; null where no server does. Raises: NoRight, NoAnswer and the like.
 *
 * @param {Link} link
 * @returns {Promise<TableState[] | null>}
 */
export async function tableStates(link) {
  /** @type {unknown[]} */
  let answers;
  try {
    answers = await link.askAll(TABLES_STATE, undefined, { quiet: 300 });
  } catch (error) {
    if (error instanceof NobodyThere) return null;
    throw error;
  }
  return answers.flatMap(tablesOf);
}

/**
 * @param {unknown} answer
 * @returns {TableState[]}
 */
function tablesOf(answer) {
  const said = /** @type {{ tables?: unknown, data?: { tables?: unknown } } | null} */ (answer);
  const tables = said?.tables ?? said?.data?.tables;
  if (!Array.isArray(tables)) throw new StrangeAnswer(`the answer to "${TABLES_STATE}" has no tables`);
  return tables.filter((one) => one && typeof one.name === "string").map(asTable);
}

/**
 * @param {Record<string, unknown>} said
 * @returns {TableState}
 */
function asTable(said) {
  const number = (/** @type {string} */ name) => (typeof said[name] === "number" ? /** @type {number} */ (said[name]) : 0);
  const words = (/** @type {string} */ name) => (typeof said[name] === "string" ? /** @type {string} */ (said[name]) : "");
  return {
    kind: words("kind"), account: words("account"), name: words("name"), last_sequence: number("last_sequence"), archived_sequence: number("archived_sequence"), files: number("files"),
    bytes: number("bytes"), last_run: words("last_run"), error: words("error"), verified: words("verified"),
  };
}
