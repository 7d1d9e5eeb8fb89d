/** One bucket: what it is and holds, its keys on the left, the chosen key on the right. */

import { to } from "../../app.js";
import { KeyIndex } from "../../data/key_index.js";
import { addressQuery } from "../../dom/address_query.js";
import { foreign, h, replace } from "../../dom/element.js";
import { KEPT, SELDOM, poll } from "../../data/poll.js";
import { brief, bytes, count, durationNs } from "../../format.js";
import { bucketInfo, withSettings } from "../../nats/buckets.js";
import { NoBucket } from "../../nats/errors.js";
import { deleteStream } from "../../nats/jetstream.js";
import { Bucket, PREFIX } from "../../nats/keyvalue.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/keyvalue.js";
import { button, figure, figures, onCommandLine, pageHead } from "../../ui/blocks.js";
import { openDanger } from "../../ui/dialog.js";
import { failure } from "../../ui/empty.js";
import { menu } from "../../ui/menu.js";
import { whyNot } from "../../ui/rights.js";
import { openEditBucket } from "../buckets/form.js";
import { openNewKey } from "./key_form.js";
import { KeyList } from "./keys.js";
import { KeyView } from "./key.js";

/** @typedef {import("../index.js").Place} Place */

/** @param {Place} place */
export async function showBucket(place) {
  const { app, host, signal, path } = place;
  const link = /** @type {import("../../nats/link.js").Link} */ (app.account);
  const bucket = await Bucket.open(link, path[0]);
  if (signal.aborted) return;
  const page = new BucketPage(place, bucket);
  host.append(...page.elements);
  if (path[1]) page.open(path[1], false);
}

class BucketPage {
  /**
   * @param {Place} place
   * @param {Bucket} bucket
   */
  constructor(place, bucket) {
    this.#place = place;
    this.#bucket = bucket;
    this.#index = new KeyIndex(bucket, place.signal);
    this.#figures = h("div", { class: "bucket-figures" });
    this.#side = h("div", { class: "bucket-side" });
    this.#list = new KeyList(this.#index, { place, open: (key) => this.open(key, true), newKey: () => this.#newKey() });
    this.#panes = h("div", { class: "bucket-panes" }, h("div", { class: "bucket-list" }, this.#list.element), this.#side);
    this.#follow();
  }

  /** @type {Place} */
  #place;
  /** @type {Bucket} */
  #bucket;
  /** @type {KeyIndex} */
  #index;
  /** @type {HTMLElement} */
  #figures;
  /** @type {HTMLElement} */
  #side;
  /** @type {HTMLElement} */
  #panes;
  /** @type {KeyList} */
  #list;
  /** @type {AbortController | null} */
  #shown = null;

  get elements() {
    const { name, config } = this.#bucket;
    const sub = config.mirror ? text.mirror(String(config.mirror.name).replace(/^KV_/, "")) : config.description && foreign(config.description);
    return [
      pageHead(foreign(name), { crumb: { href: to("keyvalue"), label: text.title }, sub, actions: this.#actions() }),
      this.#figures,
      this.#panes,
      onCommandLine(`headrace kv ls ${name} -v`, `headrace kv watch ${name}`, `headrace kv info ${name}`),
    ];
  }

  #actions() {
    const { app } = this.#place;
    if (app.isReadOnly) return [];
    const { link, config, written } = this.#bucket;
    return [
      button(text.newKey, () => this.#newKey(), { icon: "plus", kind: "main", disabled: () => whyNot(link, `${written}>`) }),
      menu(common.moreActions, () => [
        button(text.editBucket, () => this.#edit(), { disabled: () => whyNot(link, `$JS.API.STREAM.UPDATE.${config.name}`) }),
        button(text.deleteBucket, () => this.#delete(), { kind: "danger", disabled: () => whyNot(link, `$JS.API.STREAM.DELETE.${config.name}`) }),
      ], { icon: "more", kind: "" }),
    ];
  }

  /** The figures of the bucket, asked for now and then. */
  #follow() {
    const draw = () => {
      const { config, state } = this.#bucket.info;
      replace(
        this.#figures,
        figures(
          figure(text.keys, count(this.#index.isComplete ? this.#index.keys.size : state.num_subjects)),
          figure(text.values, brief(state.messages)),
          figure(text.size, bytes(state.bytes), { note: (config.max_bytes ?? -1) > 0 && text.ofSize(bytes(config.max_bytes)) }),
          figure(text.history, count(config.max_msgs_per_subject), { note: text.historyNote }),
          figure(text.ttl, config.max_age ? durationNs(config.max_age) : common.never, { note: text.ttlNote(config.allow_msg_ttl ? "1" : "") }),
          figure(text.storage, text.storageOf(config.storage ?? "file", 1), { note: (config.num_replicas ?? 1) > 1 && text.storageOf(config.storage ?? "file", config.num_replicas ?? 1) }),
        ),
      );
    };
    draw();
    this.#index.addEventListener("change", draw);
    poll({
      every: SELDOM,
      signal: this.#place.signal,
      ask: () => bucketInfo(this.#bucket.link, PREFIX, this.#bucket.name),
      show: (info) => {
        this.#bucket.info = info;
        draw();
        void this.#index.compare(info).catch(() => {}); // it is tried again with the next info
      },
      failed: (error) => {
        if (error instanceof NoBucket) return replace(this.#place.host, failure(error, h("a", { class: "button", href: to("keyvalue") }, text.title)));
        return KEPT;
      },
    });
  }

  /**
   * Show a key; its address is that of the page from then on.
   *
   * @param {string} key
   * @param {boolean} isNew a new address
   */
  open(key, isNew) {
    if (isNew) history.pushState(null, "", this.#address(key));
    this.#close();
    this.#shown = new AbortController();
    this.#place.signal.addEventListener("abort", () => this.#shown?.abort());
    const view = new KeyView(this.#bucket, this.#index, key, {
      isReadOnly: this.#place.app.isReadOnly,
      signal: this.#shown.signal,
      close: () => {
        history.pushState(null, "", this.#address());
        this.#close();
        this.#list.select("");
      },
    });
    replace(this.#side, view.element);
    this.#panes.classList.add("has-key");
    this.#list.select(key);
    if (isNew && matchMedia(NARROW).matches) view.element.scrollIntoView();
  }

  #close() {
    this.#shown?.abort();
    replace(this.#side);
    this.#panes.classList.remove("has-key");
  }

  /** @param {string} [key] */
  #address(key) {
    return to("keyvalue", key ? [this.#bucket.name, key] : [this.#bucket.name], Object.fromEntries(addressQuery()));
  }

  #newKey() {
    openNewKey(this.#bucket, { signal: this.#place.signal, open: (key) => this.open(key, true) });
  }

  #edit() {
    const { link, name, config } = this.#bucket;
    openEditBucket(link, { title: text.editBucket, bucket: name, hasKeys: true, config, changed: withSettings, signal: this.#place.signal, done: () => void this.#again() });
  }

  async #again() {
    this.#bucket.info = await bucketInfo(this.#bucket.link, PREFIX, this.#bucket.name);
    this.#index.dispatchEvent(new Event("change"));
  }

  #delete() {
    const { link, name, config, info } = this.#bucket;
    openDanger({
      title: text.deleteBucketTitle,
      lost: text.deleteBucketLost(count(info.state.num_subjects), bytes(info.state.bytes)),
      name,
      verb: text.deleteBucket,
      doing: text.deletingBucket(name),
      run: async () => {
        await deleteStream(link, config.name);
        if (!this.#place.signal.aborted) this.#place.go(to("keyvalue"));
      },
      done: text.bucketDeleted(name),
      signal: this.#place.signal,
    });
  }
}
/** Where the chosen one stands in the place of the list, as in styles/pages/buckets.css. */
const NARROW = "(max-width: 67.99rem)";
