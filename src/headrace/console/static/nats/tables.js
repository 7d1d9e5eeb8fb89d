/**
 * The state of tables that servers archive streams and channels into; operators are told. Source: docs/server.md.
 * Never here: how it looks.
 */

import { NobodyThere, StrangeAnswer } from "./errors.js";

/** @typedef {import("./link.js").Link} Link */
/**
 * One table at a place. `last_sequence`: of the stream or channel; `archived_sequence`: up to it everything is in the
 * table; null: not known, or the stream is gone.
 * @typedef {{ server: string, service: string, account: string, stream: string, kind: string, to: string, last_sequence: number | null,
 *   archived_sequence: number | null, rows: number, files: number, bytes: number, last: string, last_error: string }} TableState
 * @typedef {{ server: string, total: number, offset: number, tables: TableState[] }} TablePage
 */

export const TABLES_STATE = "$HEADRACE.TABLES.STATE";
/** Tables of one answer; others are asked for again. */
const PAGE = 1_024;
/** So many answers are asked for, one after the other. */
const MOST_PAGES = 20;

/**
 * The tables of all servers that archive; null where no server does. Raises: NoRight, NoAnswer, StrangeAnswer.
 *
 * @param {Link} link
 * @returns {Promise<TableState[] | null>}
 */
export async function tableStates(link) {
  const found = /** @type {TableState[]} */ ([]);
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const pages = await askPage(link, page * PAGE);
    if (!pages) return null;
    found.push(...pages.flatMap((one) => one.tables));
    if (pages.every((one) => one.total <= (page + 1) * PAGE)) break;
  }
  return found;
}

/**
 * @param {Link} link
 * @param {number} offset
 * @returns {Promise<TablePage[] | null>}
 */
async function askPage(link, offset) {
  try {
    return (await link.askAll(TABLES_STATE, { offset, limit: PAGE }, { quiet: 300 })).map(asPage);
  } catch (error) {
    if (error instanceof NobodyThere) return null;
    throw error;
  }
}

/**
 * @param {unknown} answer
 * @returns {TablePage}
 */
function asPage(answer) {
  const said = /** @type {{ server?: { name?: unknown }, data?: { total?: unknown, offset?: unknown, tables?: unknown } } | null} */ (answer);
  const tables = said?.data?.tables;
  if (!Array.isArray(tables)) throw new StrangeAnswer(`the answer to "${TABLES_STATE}" has no tables`);
  const server = typeof said?.server?.name === "string" ? said.server.name : "";
  return { server, total: Number(said?.data?.total) || 0, offset: Number(said?.data?.offset) || 0, tables: tables.filter((one) => one && typeof one.stream === "string").map((one) => asTable(one, server)) };
}

/**
 * @param {Record<string, unknown>} said
 * @param {string} server
 * @returns {TableState}
 */
function asTable(said, server) {
  const known = (/** @type {string} */ name) => (typeof said[name] === "number" ? /** @type {number} */ (said[name]) : null);
  const words = (/** @type {string} */ name) => (typeof said[name] === "string" ? /** @type {string} */ (said[name]) : "");
  return {
    server, service: words("service"), account: words("account"), stream: words("stream"), kind: words("kind"), to: words("to"), last_sequence: known("last_sequence"),
    archived_sequence: known("archived_sequence"), rows: known("rows") ?? 0, files: known("files") ?? 0, bytes: known("bytes") ?? 0, last: words("last"), last_error: words("last_error"),
  };
}
