/** What an account exports to others, imports of them, and maps from one subject to another. */

import { to } from "../../app.js";
import { foreign, h, replace } from "../../dom/element.js";
import { text } from "../../text/accounts.js";
import { button, card, status, tag } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";

/** @typedef {import("../../nats/accounts.js").Export} Export */
/** @typedef {import("../../nats/accounts.js").Import} Import */
/** @typedef {import("./one.js").Account} Account */
/** @typedef {{ source: string, subject: string, weight: number, cluster?: string }} Mapping */

/**
 * Make the tables once; gives what shows an account in them.
 *
 * @param {HTMLElement} body
 * @returns {(account: Account) => void}
 */
export function showSharing(body) {
  const exports = exportTable();
  const imports = importTable();
  const mappings = mappingTable();
  let showsSystem = false;
  /** @type {Account | null} */
  let shown = null;
  const more = h("div", { class: "body" });
  const draw = () => {
    const detail = shown?.detail;
    if (!detail) return;
    const own = (detail.imports ?? []).filter((one) => showsSystem || !isOfSystem(one));
    const hidden = (detail.imports ?? []).length - own.length;
    exports.setRows(detail.exports ?? []);
    imports.setRows(own);
    replace(more, hidden > 0 && button(text.systemImports(hidden), () => { showsSystem = true; draw(); }, { kind: "quiet small" }));
    more.hidden = hidden === 0;
    mappings.setRows(Object.entries(detail.mappings ?? {}).flatMap(([source, destinations]) => shares(source, destinations)));
  };
  let isMade = false;
  return (account) => {
    shown = account;
    if (!account.detail) {
      isMade = false;
      return replace(body, empty(text.notLoadedTitle, text.notLoadedNext));
    }
    if (!isMade) replace(body, card(text.exports, { flush: true }, exports.element), card(text.imports, { flush: true }, imports.element, more), card(text.mappings, { flush: true }, mappings.element));
    isMade = true;
    return draw();
  };
}

/**
 * True for the requests to the system account that servers give every account.
 * @param {Import} one
 */
function isOfSystem(one) {
  return one.subject.startsWith("$SYS.REQ.");
}

/**
 * Servers give the weights added up; people want each one's share.
 *
 * @param {string} source
 * @param {import("../../nats/accounts.js").Destination[]} destinations
 * @returns {Mapping[]}
 */
function shares(source, destinations) {
  /** @type {Record<string, number>} */
  const before = {};
  return destinations.map(({ subject, weight, cluster }) => {
    const place = cluster ?? "";
    const own = weight - (before[place] ?? 0);
    before[place] = weight;
    return { source, subject, weight: own, cluster };
  });
}

/** @returns {Table<Export>} */
function exportTable() {
  const names = text.sharing;
  return new Table(inAddress({
    name: "account-exports", label: text.exports, key: (row) => `${row.type} ${row.subject}`, words: (row) => `${row.subject} ${row.name ?? ""}`,
    columns: [
      { name: "subject", label: names.subject, cell: (row) => foreign(row.subject, "mono"), sort: (row) => row.subject },
      { name: "type", label: names.type, cell: (row) => text.kinds[row.type] ?? foreign(row.type), sort: (row) => row.type },
      { name: "answers", label: names.answers, cell: (row) => foreign(row.response_type), sort: (row) => row.response_type },
      { name: "who", label: names.who, cell: who },
      { name: "latency", label: names.latency, cell: (row) => foreign(row.service_latency?.results, "mono"), hidden: true },
    ],
    empty: () => empty(text.noExports),
  }, "exports-"));
}

/** @param {Export} row */
function who(row) {
  if (row.approved_accounts?.length) return h("span", {}, row.approved_accounts.flatMap((account, place) => [place > 0 && ", ", h("a", { href: to("accounts", [account]) }, foreign(account))]));
  return row.token_req ? text.needsToken : text.everybody;
}

/** @returns {Table<Import>} */
function importTable() {
  const names = text.sharing;
  return new Table(inAddress({
    name: "account-imports", label: text.imports, key: (row) => `${row.type} ${row.account} ${row.subject} ${row.local_subject ?? row.to ?? ""}`, words: (row) => `${row.subject} ${row.account} ${row.local_subject ?? ""}`,
    columns: [
      { name: "subject", label: names.subject, cell: (row) => foreign(row.subject, "mono"), sort: (row) => row.subject },
      { name: "type", label: names.type, cell: (row) => text.kinds[row.type] ?? foreign(row.type), sort: (row) => row.type },
      { name: "account", label: names.account, cell: (row) => h("a", { href: to("accounts", [row.account]) }, foreign(row.account)), sort: (row) => row.account },
      { name: "local", label: names.local, cell: (row) => foreign(row.local_subject || row.to || row.subject, "mono"), sort: (row) => row.local_subject },
      { name: "state", label: names.state, cell: (row) => (row.invalid ? status("bad", text.invalid) : status("good", text.works)), sort: (row) => Number(row.invalid ?? false) },
    ],
    empty: () => empty(text.noImports),
  }, "imports-"));
}

/** @returns {Table<Mapping>} */
function mappingTable() {
  const names = text.sharing;
  return new Table(inAddress({
    name: "account-mappings", label: text.mappings, key: (row) => `${row.source} ${row.subject} ${row.cluster ?? ""}`,
    columns: [
      { name: "source", label: names.subject, cell: (row) => foreign(row.source, "mono"), sort: (row) => row.source },
      { name: "to", label: names.to, cell: (row) => foreign(row.subject, "mono"), sort: (row) => row.subject },
      { name: "weight", label: names.weight, cell: (row) => `${row.weight} %`, sort: (row) => row.weight, number: true },
      { name: "cluster", label: names.cluster, cell: (row) => (row.cluster ? tag(foreign(row.cluster)) : null), sort: (row) => row.cluster ?? null },
    ],
    empty: () => empty(text.noMappings),
  }, "mappings-"));
}
