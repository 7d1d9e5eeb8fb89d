/** The objects of a bucket. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { text } from "../../text/objects.js";
import { ago, button, card, onCommandLine, tag } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";

/** @typedef {import("../../data/object_index.js").ObjectIndex} ObjectIndex */
/** @typedef {import("../../data/object_index.js").ObjectRow} ObjectRow */

export class ObjectList {
  /**
   * @param {ObjectIndex} index
   * @param {{ open: (name: string) => void, upload: () => void, cannot: () => string }} options cannot: why nothing can be uploaded, or ""
   */
  constructor(index, { open, upload, cannot }) {
    this.#index = index;
    this.#upload = upload;
    this.#cannot = cannot;
    this.#progress = h("span", { class: "muted small", role: "status" });
    this.#note = h("p", { class: "hint-box", hidden: true }, text.byNames);
    /** @type {Table<ObjectRow>} */
    this.#table = new Table(inAddress({
      name: "objects.list", label: text.objects,
      columns: [
        { name: "name", label: text.object, cell: (row) => h("span", { class: "row nowrap-row" }, foreign(row.name, row.name === this.#selected ? "is-selected" : ""), row.facts?.link && tag(text.linkWord)), sort: (row) => row.name },
        { name: "size", label: text.size, number: true, cell: (row) => (row.facts && !row.facts.link ? bytes(row.facts.size) : "–"), sort: (row) => row.facts?.size },
        { name: "modified", label: text.modified, cell: (row) => (row.facts ? ago(row.facts.modified) : "–"), sort: (row) => row.facts?.modified },
        { name: "chunks", label: text.chunks, number: true, cell: (row) => count(row.facts?.chunks), sort: (row) => row.facts?.chunks, hidden: true },
        { name: "description", label: text.description, cell: (row) => foreign(row.facts?.description ?? ""), hidden: true },
      ],
      key: (row) => row.name,
      words: (row) => `${row.name} ${row.facts?.description ?? ""}`,
      sorted: ["name", "up"],
      open: (row) => open(row.name),
      json: (row) => row.facts ?? row.name,
      seen: (rows) => void index.learn(rows),
      tools: [this.#progress],
      empty: () => this.#empty(),
    }));
    this.#body = h("div", {}, this.#table.element);
    this.element = card("", { flush: true }, this.#note, this.#body);
    const draw = () => this.#draw();
    index.addEventListener("change", draw);
    index.addEventListener("failed", (event) => {
      if (!index.isComplete) replace(this.#body, failure(/** @type {CustomEvent} */ (event).detail));
    });
    draw();
  }

  /** @type {ObjectIndex} */
  #index;
  #upload;
  #cannot;
  #selected = "";
  /** @type {Table<ObjectRow>} */
  #table;
  /** @type {HTMLElement} */
  #body;
  /** @type {HTMLElement} */
  #note;
  /** @type {HTMLElement} */
  #progress;
  #drawnAt = 0;
  #later = 0;

  /** @param {string} name */
  select(name) {
    this.#selected = name;
    this.#table.redraw();
  }

  /** A long list is put in order again some time after the last time, not at each change. */
  #draw() {
    const { isComplete, isByNames, objects } = this.#index;
    const wait = objects.size > LARGE ? this.#drawnAt + PATIENCE_MS - Date.now() : 0;
    clearTimeout(this.#later);
    this.#note.hidden = !isByNames;
    this.#progress.textContent = isComplete ? "" : text.reading(count(objects.size));
    if (wait > 0 && !(isComplete && !this.#wasComplete)) {
      this.#later = window.setTimeout(() => this.#draw(), wait);
      return;
    }
    this.#wasComplete = isComplete;
    this.#drawnAt = Date.now();
    this.#table.setRows([...objects.values()]);
  }

  #wasComplete = false;

  #empty() {
    if (!this.#index.isComplete) return h("div", { class: "empty" }, text.reading("0"));
    return empty(
      text.noObjects,
      h("p", {}, text.noObjectsNext),
      button(text.upload, this.#upload, { icon: "upload", disabled: this.#cannot }),
      onCommandLine(`headrace object put ${this.#index.store.name} report.pdf`),
    );
  }
}

const LARGE = 2_000;
const PATIENCE_MS = 3_000;
