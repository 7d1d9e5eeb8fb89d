/** The keys of a bucket: as a tree, as a list, or the changes as they come. */

import { foldersOf, treeOf, treeRows } from "../../data/key_tree.js";
import { keepInAddress } from "../../dom/address_query.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, clockTime, count } from "../../format.js";
import { text } from "../../text/keyvalue.js";
import { ago, button, card, choice, onCommandLine, status, when } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { filterInput } from "../../ui/fields.js";
import { icon } from "../../ui/icons.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";
import { whyNot } from "../../ui/rights.js";

/** @typedef {import("../../data/key_index.js").KeyIndex} KeyIndex */
/** @typedef {import("../../data/key_index.js").KeyFacts} KeyFacts */
/** @typedef {import("../../data/key_tree.js").TreeRow} TreeRow */
/** @typedef {"tree" | "list" | "changes"} View */

/** A list with more keys is put in order again this many ms after the last time, not at each change. */
const LARGE = 5_000;
const PATIENCE_MS = 5_000;
/** A tree of so few keys that match a filter is shown open. */
const OPEN_FOUND = 500;

export class KeyList {
  /**
   * @param {KeyIndex} index
   * @param {{ place: import("../index.js").Place, open: (key: string) => void, newKey: () => void }} options
   */
  constructor(index, { place, open, newKey }) {
    this.#index = index;
    this.#place = place;
    this.#open = open;
    this.#newKey = newKey;
    const asked = place.query.get("view");
    this.#view = asked === "list" || asked === "changes" ? asked : "tree";
    this.#filter = place.query.get("filter") ?? "";
    this.#body = h("div");
    this.#note = h("p", { class: "hint-box", hidden: true });
    this.#progress = h("span", { class: "muted small", role: "status" });
    const views = choice(text.views, [["tree", text.tree], ["list", text.list], ["changes", text.changes]], this.#view, (view) => this.#choose(view));
    const tools = h("div", { class: "table-tools" }, views, filterInput(text.filter, (typed) => this.#filterBy(typed), this.#filter), this.#progress);
    this.element = card("", { flush: true }, this.#note, tools, this.#body);
    this.#make();
    index.addEventListener("change", () => this.#onChange());
    index.addEventListener("failed", (event) => {
      if (!index.isComplete) replace(this.#body, failure(/** @type {CustomEvent} */ (event).detail));
    });
  }

  /** @type {KeyIndex} */
  #index;
  /** @type {import("../index.js").Place} */
  #place;
  /** @type {(key: string) => void} */
  #open;
  /** @type {() => void} */
  #newKey;
  /** @type {View} */
  #view;
  #filter;
  #selected = "";
  /** @type {HTMLElement} */
  #body;
  /** @type {HTMLElement} */
  #note;
  /** @type {HTMLElement} */
  #progress;
  /** @type {Table<any>} */
  #table = /** @type {any} */ (null);
  /** @type {Set<string>} */
  #openFolders = new Set();
  #shownVersion = -1;
  #shownAt = 0;
  #later = 0;

  /** @param {string} key */
  select(key) {
    this.#selected = key;
    let isNew = false;
    for (const path of foldersOf(key)) {
      isNew ||= !this.#openFolders.has(path);
      this.#openFolders.add(path);
    }
    if (isNew && this.#view === "tree") this.#drawTree();
    else this.#table.redraw();
  }

  /** @param {View} view */
  #choose(view) {
    this.#view = view;
    this.#keepAddress();
    this.#make();
  }

  /** @param {string} typed */
  #filterBy(typed) {
    this.#filter = typed.trim();
    this.#keepAddress();
    this.#draw();
  }

  #keepAddress() {
    keepInAddress({ view: this.#view === "tree" ? null : this.#view, filter: this.#filter });
  }

  #make() {
    this.#table = this.#view === "tree" ? this.#treeTable() : this.#view === "list" ? this.#listTable() : this.#changesTable();
    replace(this.#body, this.#table.element);
    this.#draw();
  }

  #onChange() {
    const isMoving = this.#index.version !== this.#shownVersion || this.#index.isComplete !== this.#wasComplete || this.#view === "changes";
    const wait = this.#index.keys.size > LARGE && this.#index.isComplete && this.#shownVersion >= 0 ? this.#shownAt + PATIENCE_MS - Date.now() : 0;
    if (!isMoving) this.#table.redraw();
    else if (wait > 0 && this.#wasComplete) {
      clearTimeout(this.#later);
      this.#later = window.setTimeout(() => { if (!this.#place.signal.aborted) this.#draw(); }, wait);
    } else this.#draw();
  }

  #wasComplete = false;

  #draw() {
    const index = this.#index;
    clearTimeout(this.#later);
    this.#note.hidden = !index.isByNames;
    this.#note.textContent = text.byNames;
    this.#progress.textContent = index.isComplete ? "" : text.reading(count(index.keys.size));
    // While a large bucket is read only its first keys are drawn: to put all in order again and again would take the time that reading needs.
    if (!index.isComplete && this.#shownVersion > 0 && index.keys.size > LARGE) return;
    this.#wasComplete = index.isComplete;
    this.#shownVersion = index.version;
    this.#shownAt = Date.now();
    if (this.#view === "changes") this.#table.setRows(this.#matching(index.changes, (change) => change.key));
    else if (this.#view === "list") this.#table.setRows(this.#matching([...index.keys.keys()], (key) => key).sort(plainly).map((key) => ({ key })));
    else this.#drawTree();
  }

  #drawTree() {
    const keys = this.#matching([...this.#index.keys.keys()], (key) => key);
    const isFound = this.#filter !== "" && keys.length <= OPEN_FOUND;
    const rows = treeRows(treeOf(keys), (path) => isFound || this.#openFolders.has(path));
    this.#table.setRows(rows);
  }

  /**
   * @template T
   * @param {T[]} all
   * @param {(one: T) => string} key
   */
  #matching(all, key) {
    const wanted = this.#filter.toLowerCase();
    return wanted ? all.filter((one) => key(one).toLowerCase().includes(wanted)) : all;
  }

  // -- tables --------------------------------------------------------------------------------------

  /** @returns {Table<TreeRow>} */
  #treeTable() {
    return new Table({
      name: "keyvalue.tree", label: text.keys,
      columns: [
        { name: "key", label: text.key, cell: (row) => this.#treeCell(row) },
        { name: "size", label: text.size, number: true, cell: (row) => (row.key === null ? text.below(count(row.count)) : this.#size(row.key)) },
        { name: "changed", label: text.changed, cell: (row) => row.key !== null && this.#changed(row.key) },
        { name: "revision", label: text.revision, number: true, cell: (row) => row.key !== null && this.#revision(row.key), hidden: true },
      ],
      key: (row) => `${row.key === null ? "+" : "="}${row.path}`,
      open: (row) => (row.key === null ? this.#toggle(row) : this.#open(row.key)),
      json: (row) => (row.key === null ? { folder: row.path, keys: row.count } : this.#index.keys.get(row.key)),
      empty: () => this.#empty(),
    });
  }

  /** @param {TreeRow} row */
  #treeCell(row) {
    const name = row.name || "\u2205";
    const inner = row.key === null
      ? [h("button", { class: "twist", type: "button", "aria-expanded": String(row.isOpen), "aria-label": text.folder(row.path, row.isOpen), onclick: () => this.#toggle(row) }, icon("next", 12)), foreign(name, "folder mono")]
      : [h("span", { class: "leaf" }), foreign(name, row.key === this.#selected ? "mono is-selected" : "mono")];
    const cell = h("span", { class: "kv-tree" }, inner);
    cell.style.setProperty("--depth", String(row.depth));
    return cell;
  }

  /** @param {TreeRow} row */
  #toggle(row) {
    if (this.#openFolders.has(row.path)) this.#openFolders.delete(row.path);
    else this.#openFolders.add(row.path);
    this.#drawTree();
  }

  /** @returns {Table<{ key: string }>} */
  #listTable() {
    const facts = (/** @type {{ key: string }} */ row) => this.#index.keys.get(row.key);
    return new Table(inAddress({
      name: "keyvalue.list", label: text.keys,
      columns: [
        { name: "key", label: text.key, cell: (row) => foreign(row.key, row.key === this.#selected ? "mono is-selected" : "mono"), sort: (row) => row.key },
        { name: "revision", label: text.revision, number: true, cell: (row) => this.#revision(row.key), sort: (row) => facts(row)?.revision },
        { name: "size", label: text.size, number: true, cell: (row) => this.#size(row.key), sort: (row) => facts(row)?.size },
        { name: "changed", label: text.changed, cell: (row) => this.#changed(row.key), sort: (row) => facts(row)?.time },
        { name: "kept", label: text.kept, number: true, cell: (row) => count(facts(row)?.kept), hidden: !this.#index.isByNames },
      ],
      key: (row) => row.key,
      open: (row) => this.#open(row.key),
      json: (row) => facts(row),
      empty: () => this.#empty(),
    }));
  }

  /** @returns {Table<KeyFacts>} */
  #changesTable() {
    return new Table({
      name: "keyvalue.changes", label: text.changes,
      columns: [
        { name: "time", label: text.changed, cell: (row) => h("time", { title: String(when(row.time).title) }, clockTime(row.time)) },
        { name: "operation", label: text.operation, cell: (row) => operationWord(row.operation) },
        { name: "key", label: text.key, cell: (row) => foreign(row.key, "mono") },
        { name: "revision", label: text.revision, number: true, cell: (row) => count(row.revision) },
        { name: "size", label: text.size, number: true, cell: (row) => bytes(row.size) },
      ],
      key: (row) => String(row.revision),
      open: (row) => this.#open(row.key),
      empty: () => (this.#index.isByNames ? h("div", { class: "empty" }, text.byNames) : empty(text.noChanges, h("p", {}, text.noChangesNext), onCommandLine(`headrace kv watch ${this.#index.bucket.name} --updates`))),
    });
  }

  /** @param {string} key */
  #size(key) {
    const facts = this.#index.keys.get(key);
    return facts?.revision ? bytes(facts.size) : "–";
  }

  /** @param {string} key */
  #changed(key) {
    const facts = this.#index.keys.get(key);
    return facts?.revision ? ago(facts.time) : "–";
  }

  /** @param {string} key */
  #revision(key) {
    const facts = this.#index.keys.get(key);
    return facts?.revision ? count(facts.revision) : "–";
  }

  #empty() {
    const { bucket, isComplete, keys } = this.#index;
    if (!isComplete) return h("div", { class: "empty" }, text.reading("0"));
    if (this.#filter && keys.size) return h("div", { class: "empty" }, text.noMatch(this.#filter));
    const mayWrite = !this.#place.app.isReadOnly;
    return empty(
      text.noKeys,
      h("p", {}, text.noKeysNext),
      mayWrite && button(text.newKey, this.#newKey, { icon: "plus", disabled: () => whyNot(bucket.link, `${bucket.written}>`) }),
      onCommandLine(`headrace kv put ${bucket.name} colour red`),
    );
  }
}

/** @param {import("../../nats/keyvalue.js").Operation} operation */
export function operationWord(operation) {
  return status(operation === "PUT" ? "good" : operation === "DEL" ? "idle" : "warn", text.operations[operation]);
}

/** @param {string} a @param {string} b */
function plainly(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
