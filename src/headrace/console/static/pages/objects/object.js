/** One object: its facts, what it looks like, and what may be done with it. It follows what others write. */

import { to } from "../../app.js";
import { transfers } from "../../data/transfers.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { WrongDigest } from "../../nats/objects.js";
import { text as bucketText } from "../../text/buckets.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/objects.js";
import { ago, button, copyButton, facts as factRows, linkButton, onCommandLine, shellWord, when } from "../../ui/blocks.js";
import { openDanger } from "../../ui/dialog.js";
import { saveFile } from "../../ui/download.js";
import { empty, failure } from "../../ui/empty.js";
import { icon } from "../../ui/icons.js";
import { whyNot } from "../../ui/rights.js";
import { say } from "../../ui/toasts.js";
import { openRename } from "./forms.js";
import { MOST_PREVIEWED, preview } from "./preview.js";
import { words } from "./uploads.js";

/** @typedef {import("../../nats/objects.js").Store} Store */
/** @typedef {import("../../nats/object_facts.js").ObjectFacts} ObjectFacts */

/** A larger object is left to the command line: here all of it is kept until its digest is checked. */
const MOST_DOWNLOADED = 2_147_483_648;

export class ObjectView {
  /**
   * @param {Store} store
   * @param {import("../../data/object_index.js").ObjectIndex} index
   * @param {string} name
   * @param {{ isReadOnly: boolean, signal: AbortSignal, close: () => void, renamed: (name: string) => void }} options
   */
  constructor(store, index, name, { isReadOnly, signal, close, renamed }) {
    this.#store = store;
    this.#index = index;
    this.#name = name;
    this.#isReadOnly = isReadOnly;
    this.#signal = signal;
    this.#renamed = renamed;
    this.#actions = h("div", { class: "toolbar bucket-actions" });
    this.#summary = h("div", { class: "bucket-facts" });
    this.#body = h("div", { class: "stack" });
    this.element = h(
      "section",
      { class: "card", "aria-label": text.object },
      h(
        "header",
        {},
        h("div", { class: "bucket-title" }, h("h2", { class: "bucket-name" }, foreign(name), copyButton(name)), this.#summary),
        h("button", { class: "button quiet square", type: "button", "aria-label": common.close, title: common.close, onclick: close }, icon("close")),
        this.#actions,
      ),
      h("div", { class: "body" }, this.#body),
    );
    index.addEventListener("change", () => {
      const known = index.objects.get(name)?.facts;
      if (known ? known.sequence !== this.#facts?.sequence : index.isComplete && this.#facts && !this.#facts.isDeleted && !index.isByNames) void this.#load();
    }, { signal });
    void this.#load();
  }

  /** @type {Store} */
  #store;
  /** @type {import("../../data/object_index.js").ObjectIndex} */
  #index;
  #name;
  #isReadOnly;
  /** @type {AbortSignal} */
  #signal;
  /** @type {(name: string) => void} */
  #renamed;
  /** @type {ObjectFacts | null} */
  #facts = null;
  #loading = 0;
  /** @type {HTMLElement} */
  #actions;
  /** @type {HTMLElement} */
  #summary;
  /** @type {HTMLElement} */
  #body;

  async #load() {
    const round = (this.#loading += 1);
    try {
      const facts = await this.#store.facts(this.#name);
      if (round !== this.#loading || this.#signal.aborted) return;
      this.#facts = facts;
      this.#draw();
    } catch (error) {
      if (round === this.#loading && !this.#signal.aborted) replace(this.#body, failure(error, button(common.retry, () => void this.#load())));
    }
  }

  #draw() {
    const facts = this.#facts;
    if (!facts || facts.isDeleted) {
      replace(this.#actions);
      replace(this.#summary, facts && ago(facts.modified));
      return replace(this.#body, empty(facts ? text.isGone : text.gone, h("p", {}, text.goneNext)));
    }
    replace(this.#summary, !facts.link && h("span", {}, bytes(facts.size)), ago(facts.modified), facts.link && text.linkTo(facts.link.bucket, facts.link.name));
    this.#drawActions(facts);
    const preview = h("div");
    const command = (/** @type {string} */ verb) => `headrace object ${verb} ${this.#store.name} ${shellWord(facts.name)}`;
    replace(this.#body, this.#factList(facts), preview, onCommandLine(command("get"), command("info"), command("verify")));
    if (!facts.link) this.#drawPreview(preview, facts);
    return undefined;
  }

  /** @param {ObjectFacts} facts */
  #drawActions(facts) {
    const { link, config } = this.#store;
    const reason = () => (config.sealed && bucketText.sealed) || whyNot(link, this.#store.metaSubject(facts.name), `$JS.API.STREAM.PURGE.${config.name}`);
    const isLarge = facts.size > MOST_DOWNLOADED;
    replace(
      this.#actions,
      facts.link && linkButton(text.openTarget, to("objects", facts.link.name ? [facts.link.bucket, facts.link.name] : [facts.link.bucket]), { kind: "small" }),
      (!facts.link || facts.link.name) && button(text.download, () => this.#download(facts), { kind: "small", icon: "download", disabled: isLarge && text.tooLargeHere(bytes(MOST_DOWNLOADED)) }),
      !this.#isReadOnly &&
        h(
          "div",
          { class: "buttons end" },
          button(text.edit, () => openRename(this.#store, facts, { signal: this.#signal, done: (name) => this.#onRenamed(name) }), { kind: "small", icon: "edit", disabled: reason }),
          button(text.remove, () => this.#remove(facts), { kind: "small danger", icon: "trash", disabled: reason }),
        ),
    );
  }

  /** @param {string} name */
  #onRenamed(name) {
    if (name === this.#name) return void this.#load();
    this.#index.forget(this.#name);
    this.#renamed(name);
    return undefined;
  }

  /** @param {ObjectFacts} facts */
  #factList(facts) {
    const pairs = (/** @type {[string, string][]} */ rows) =>
      rows.length ? h("ul", {}, rows.map(([name, value]) => h("li", {}, foreign(name, "muted"), ": ", foreign(value)))) : null;
    return factRows([
      [text.description, facts.description ? foreign(facts.description) : null],
      [text.modified, when(facts.modified)],
      [text.chunks, facts.link ? null : text.chunksOf(count(facts.chunks), bytes(facts.chunkSize))],
      [text.digest, facts.digest ? h("span", { class: "mono wrap-anywhere" }, foreign(facts.digest)) : null],
      [text.metadata, pairs(Object.entries(facts.metadata))],
      [text.headers, pairs(Object.entries(facts.headers).flatMap(([name, values]) => [values].flat().map((value) => /** @type {[string, string]} */ ([name, String(value)]))))],
      [text.nuid, h("span", { class: "mono" }, foreign(facts.nuid))],
    ]);
  }

  /**
   * @param {HTMLElement} place
   * @param {ObjectFacts} facts
   */
  #drawPreview(place, facts) {
    if (!facts.size) return;
    if (facts.size > MOST_PREVIEWED) return replace(place, h("p", { class: "muted" }, text.noPreview(bytes(MOST_PREVIEWED))));
    replace(place, h("p", { class: "muted" }, common.loading));
    void this.#store.get(facts.name, { signal: this.#signal }).then(
      async ({ blob }) => {
        const data = new Uint8Array(await blob.arrayBuffer());
        if (!this.#signal.aborted) replace(place, preview(facts.name, data, this.#signal));
      },
      (error) => {
        if (!this.#signal.aborted) replace(place, error instanceof WrongDigest ? empty(text.wrongDigest) : failure(error));
      },
    );
  }

  /** @param {ObjectFacts} facts */
  #download(facts) {
    const store = this.#store;
    void transfers
      .add({ direction: "down", bucket: store.name, name: facts.name, size: facts.size }, async (transfer, signal) => {
        const { blob, facts: found } = await store.get(facts.name, {
          signal,
          progress: (done, size) => {
            [transfer.done, transfer.size] = [done, size];
            transfers.tell();
          },
        });
        transfer.size = found.size;
        saveFile(facts.name.split("/").pop() ?? "", [blob]);
      })
      .then(({ state, error }) => {
        if (state === "done") say(text.got(facts.name));
        else if (state === "failed") say(text.failed(facts.name, words(error)), { tone: "bad" });
      });
  }

  /** @param {ObjectFacts} facts */
  #remove(facts) {
    openDanger({
      title: text.removeTitle, lost: text.removeLost(bytes(facts.size)), name: facts.name, verb: text.remove, doing: text.removing(facts.name), done: text.removed,
      run: () => this.#store.remove(facts.name).then(() => this.#load()),
    });
  }
}
