/** One key: its value, the editor, its history; deleted and purged here. It follows what others write. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, duration, goSeconds } from "../../format.js";
import { isKey } from "../../nats/keyvalue.js";
import { text } from "../../text/keyvalue.js";
import { text as common } from "../../text/common.js";
import { ago, button, choice, copyButton, onCommandLine } from "../../ui/blocks.js";
import { openDanger } from "../../ui/dialog.js";
import { saveFile } from "../../ui/download.js";
import { empty, failure } from "../../ui/empty.js";
import { icon } from "../../ui/icons.js";
import { judged } from "../../ui/judged.js";
import { payloadView } from "../../ui/payload.js";
import { whyNot } from "../../ui/rights.js";
import { keyCommand } from "./commands.js";
import { Editor } from "./editor.js";
import { historyView } from "./history.js";
import { operationWord } from "./keys.js";

/** @typedef {import("../../nats/keyvalue.js").Bucket} Bucket */
/** @typedef {import("../../nats/keyvalue.js").Entry} Entry */
/** @typedef {"value" | "edit" | "history"} Part */

export class KeyView {
  /**
   * @param {Bucket} bucket
   * @param {import("../../data/key_index.js").KeyIndex} index
   * @param {string} key
   * @param {{ isReadOnly: boolean, signal: AbortSignal, close: () => void }} options
   */
  constructor(bucket, index, key, { isReadOnly, signal, close }) {
    this.#bucket = bucket;
    this.#key = key;
    this.#isReadOnly = isReadOnly;
    this.#signal = signal;
    this.#facts = h("div", { class: "bucket-facts" });
    this.#newer = h("div", { role: "status" });
    this.#body = h("div", { class: "stack" });
    this.element = h("section", { class: "card", "aria-label": text.key }, this.#head(close), h("div", { class: "body" }, this.#newer, this.#body));
    index.addEventListener("change", () => this.#onChange(index), { signal });
    void this.#load();
  }

  /** @type {Bucket} */
  #bucket;
  #key;
  #isReadOnly;
  /** @type {AbortSignal} */
  #signal;
  /** @type {Part} */
  #part = "value";
  /** @type {Entry | null} */
  #entry = null;
  /** @type {Editor | null} */
  #editor = null;
  #loading = 0;
  /** The revision that the index named last, which is asked for once. */
  #told = 0;
  /** @type {HTMLElement} */
  #facts;
  /** @type {HTMLElement} */
  #newer;
  /** @type {HTMLElement} */
  #body;

  /** @param {() => void} close */
  #head(close) {
    const { link, written } = this.#bucket;
    const parts = /** @type {[Part, string][]} */ ([["value", text.value], ...(this.#isReadOnly ? [] : [["edit", text.edit]]), ["history", text.historyTab]]);
    const reason = () => whyNot(link, written + this.#key);
    return h(
      "header",
      {},
      h("div", { class: "bucket-title" }, h("h2", { class: "bucket-name" }, foreign(this.#key), copyButton(this.#key)), this.#facts),
      h("button", { class: "button quiet square", type: "button", "aria-label": common.close, title: common.close, onclick: close }, icon("close")),
      h(
        "div",
        { class: "toolbar bucket-actions" },
        choice(text.parts, parts, this.#part, (part) => { this.#part = part; this.#draw(); }),
        h(
          "div",
          { class: "buttons end" },
          button(text.download, () => this.#entry && saveFile(this.#key, [/** @type {BlobPart} */ (this.#entry.value)]), { kind: "small", icon: "download" }),
          !this.#isReadOnly && button(text.remove, () => this.#remove(), { kind: "small danger", disabled: reason }),
          !this.#isReadOnly && button(text.purge, () => this.#purge(), { kind: "small danger", disabled: reason }),
        ),
      ),
    );
  }

  /** @param {import("../../data/key_index.js").KeyIndex} index */
  #onChange(index) {
    const revision = index.keys.get(this.#key)?.revision ?? 0;
    const isGone = index.isComplete && !index.isByNames && !revision && this.#entry?.operation === "PUT";
    const isNewer = revision > (this.#entry?.revision ?? 0) && revision !== this.#told;
    if (!index.isByNames && !isGone && !isNewer) return;
    this.#told = revision;
    if (this.#editor?.isDirty && this.#part === "edit") {
      if (isNewer) replace(this.#newer, h("p", { class: "hint-box row" }, text.newer(revision), button(text.show, () => { this.#part = "value"; void this.#load(); }, { kind: "small" })));
    } else void this.#load();
  }

  async #load() {
    const round = (this.#loading += 1);
    try {
      const entry = await this.#bucket.last(this.#key);
      if (round !== this.#loading || this.#signal.aborted) return;
      const isSame = entry?.revision === this.#entry?.revision && this.#body.childNodes.length > 0;
      this.#entry = entry;
      if (isSame) return;
      this.#editor = null;
      replace(this.#newer);
      this.#draw();
    } catch (error) {
      if (round === this.#loading && !this.#signal.aborted) replace(this.#body, failure(error, button(common.retry, () => void this.#load())));
    }
  }

  #draw() {
    this.#drawFacts();
    if (this.#part === "edit") return this.#drawEditor();
    if (this.#part === "history") return void this.#drawHistory();
    const entry = this.#entry;
    const { name } = this.#bucket;
    if (!entry) return replace(this.#body, empty(text.neverSet, h("p", {}, text.neverSetNext)));
    if (entry.operation !== "PUT") return replace(this.#body, empty(text.removed, h("p", {}, text.removedNext)), onCommandLine(keyCommand("history", name, this.#key)));
    return replace(this.#body, payloadView(entry.value), onCommandLine(keyCommand("get", name, this.#key), `${keyCommand("watch", name, this.#key)}`));
  }

  #drawFacts() {
    const entry = this.#entry;
    const left = entry && timeLeft(this.#bucket, entry);
    replace(
      this.#facts,
      entry && operationWord(entry.operation),
      entry && h("span", {}, `${text.revision} ${entry.revision}`),
      entry && ago(entry.time),
      entry && h("span", {}, bytes(entry.size)),
      left !== null && left !== undefined && h("span", {}, text.goesIn(duration(Math.floor(left)))),
    );
  }

  /** Why the key cannot be written, or "". */
  #cannotWrite() {
    return (isKey(this.#key) ? "" : text.keyUnusual) || whyNot(this.#bucket.link, this.#bucket.written + this.#key);
  }

  #drawEditor() {
    const reason = this.#cannotWrite();
    if (reason) return replace(this.#body, judged(empty(reason), () => { if (!this.#cannotWrite()) this.#draw(); }));
    this.#editor ??= new Editor(this.#bucket, this.#key, this.#entry, {
      saved: () => {
        this.#part = "value";
        this.#press("value");
        this.#entry = null;
        replace(this.#body);
        void this.#load();
      },
    });
    return replace(this.#body, this.#editor.element, onCommandLine(`${keyCommand("update", this.#bucket.name, this.#key)} VALUE ${this.#entry?.revision ?? 0}`));
  }

  /** @param {Part} part */
  #press(part) {
    for (const one of this.element.querySelectorAll("header .choice button")) one.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (one).dataset.value === part));
  }

  async #drawHistory() {
    replace(this.#body, h("p", { class: "muted" }, common.loading));
    try {
      const entries = await this.#bucket.history(this.#key, this.#signal);
      if (this.#signal.aborted || this.#part !== "history") return;
      const view = historyView(this.#bucket, entries, { revertable: !this.#isReadOnly, forbidden: () => this.#cannotWrite(), signal: this.#signal, changed: () => void this.#load() });
      replace(this.#body, view, onCommandLine(keyCommand("history", this.#bucket.name, this.#key), `${keyCommand("revert", this.#bucket.name, this.#key)} ${entries[1]?.revision ?? 1}`));
    } catch (error) {
      if (!this.#signal.aborted) replace(this.#body, failure(error));
    }
  }

  #remove() {
    const key = this.#key;
    const revision = this.#entry?.revision;
    openDanger({
      title: text.deleteTitle, lost: text.deleteLost, name: key, verb: text.remove, doing: text.deleting(key), done: text.deleted,
      run: () => this.#bucket.delete(key, revision).then(() => this.#load()),
    });
  }

  #purge() {
    const key = this.#key;
    const revision = this.#entry?.revision;
    openDanger({
      title: text.purgeTitle, lost: text.purgeLost, name: key, verb: text.purge, doing: text.purging(key), done: text.purged,
      run: () => this.#bucket.purge(key, revision).then(() => this.#load()),
    });
  }
}

/**
 * The seconds that a value has left, or null where it stays.
 *
 * @param {Bucket} bucket
 * @param {Entry} entry
 */
function timeLeft(bucket, entry) {
  const own = entry.headers.find(([name]) => name === "Nats-TTL")?.[1];
  const seconds = own === undefined ? null : /^\d+$/.test(own) ? Number(own) : goSeconds(own);
  const ofBucket = bucket.config.max_age ? bucket.config.max_age / 1e9 : null;
  const lives = seconds === null ? ofBucket : ofBucket === null ? seconds : Math.min(seconds, ofBucket);
  return lives ? Math.max(0, lives - (Date.now() - entry.time) / 1_000) : null;
}
