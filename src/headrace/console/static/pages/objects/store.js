/** One bucket: its objects on the left, the chosen one on the right, and what is on its way. */

import { to } from "../../app.js";
import { ObjectIndex } from "../../data/object_index.js";
import { KEPT, SELDOM, poll } from "../../data/poll.js";
import { addressQuery } from "../../dom/address_query.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count, durationNs } from "../../format.js";
import { bucketInfo, sealBucket, withSettings } from "../../nats/buckets.js";
import { NoBucket } from "../../nats/errors.js";
import { deleteStream } from "../../nats/jetstream.js";
import { PREFIX, Store } from "../../nats/objects.js";
import { text as bucketText } from "../../text/buckets.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/objects.js";
import { button, figure, figures, onCommandLine, pageHead } from "../../ui/blocks.js";
import { openDanger } from "../../ui/dialog.js";
import { failure } from "../../ui/empty.js";
import { menu } from "../../ui/menu.js";
import { whyNot } from "../../ui/rights.js";
import { openEditBucket } from "../buckets/form.js";
import { openLink } from "./forms.js";
import { ObjectList } from "./list.js";
import { ObjectView } from "./object.js";
import { transferList } from "./transfers.js";
import { Uploads } from "./uploads.js";

/** @typedef {import("../index.js").Place} Place */

/** @param {Place} place */
export async function showStore(place) {
  const { app, host, signal, path } = place;
  const link = /** @type {import("../../nats/link.js").Link} */ (app.account);
  const store = await Store.open(link, path[0]);
  if (signal.aborted) return;
  const page = new StorePage(place, store);
  host.append(...page.elements);
  if (path[1]) page.open(path[1], false);
}

class StorePage {
  /**
   * @param {Place} place
   * @param {Store} store
   */
  constructor(place, store) {
    this.#place = place;
    this.#store = store;
    this.#index = new ObjectIndex(store, place.signal);
    this.#uploads = new Uploads(store, this.#index, place.signal);
    this.#figures = h("div", { class: "bucket-figures" });
    this.#actions = h("div", { class: "buttons" });
    this.#side = h("div", { class: "bucket-side" });
    this.#list = new ObjectList(this.#index, { open: (name) => this.open(name, true), upload: () => this.#uploads.choose(), cannot: () => this.#cannotWrite() });
    const left = h("div", { class: "bucket-list objects-drop" }, this.#list.element);
    this.#uploads.takeDrops(left, () => this.#cannotWrite());
    this.#panes = h("div", { class: "bucket-panes" }, left, this.#side);
    this.#drawActions();
    this.#follow();
  }

  /** @type {Place} */
  #place;
  /** @type {Store} */
  #store;
  /** @type {ObjectIndex} */
  #index;
  /** @type {Uploads} */
  #uploads;
  /** @type {HTMLElement} */
  #figures;
  /** @type {HTMLElement} */
  #actions;
  /** @type {HTMLElement} */
  #side;
  /** @type {HTMLElement} */
  #panes;
  /** @type {ObjectList} */
  #list;
  /** @type {AbortController | null} */
  #shown = null;

  get elements() {
    const { name, config } = this.#store;
    return [
      pageHead(foreign(name), { crumb: { href: to("objects"), label: text.title }, sub: config.description && foreign(config.description), actions: [this.#actions] }),
      this.#figures,
      transferList(this.#place.signal),
      this.#panes,
      onCommandLine(`headrace object ls ${name}`, `headrace object put ${name} report.pdf`, `headrace object watch ${name}`),
    ];
  }

  /** Why nothing can be put into the bucket, or "". */
  #cannotWrite() {
    const { link, name, config } = this.#store;
    if (this.#place.app.isReadOnly) return common.readOnly;
    return config.sealed ? bucketText.sealed : whyNot(link, `$O.${name}.C.>`, `$O.${name}.M.>`);
  }

  #drawActions() {
    if (this.#place.app.isReadOnly) return;
    const { link, config } = this.#store;
    const reason = () => this.#cannotWrite();
    const update = () => (config.sealed && bucketText.sealed) || whyNot(link, `$JS.API.STREAM.UPDATE.${config.name}`);
    replace(
      this.#actions,
      button(text.upload, () => this.#uploads.choose(), { icon: "upload", kind: "main", disabled: reason }),
      button(text.addLink, () => openLink(this.#store, { signal: this.#place.signal, done: (name) => this.open(name, true) }), { icon: "connections", disabled: reason }),
      menu(common.moreActions, () => [
        button(text.editBucket, () => this.#edit(), { disabled: update }),
        button(text.seal, () => this.#seal(), { disabled: update }),
        button(text.deleteBucket, () => this.#delete(), { kind: "danger", disabled: () => whyNot(link, `$JS.API.STREAM.DELETE.${config.name}`) }),
      ], { icon: "more", kind: "" }),
    );
  }

  /** The figures of the bucket, asked for now and then. */
  #follow() {
    const draw = () => {
      const { config, state } = this.#store.info;
      const replicas = config.num_replicas ?? 1;
      replace(
        this.#figures,
        figures(
          figure(text.objects, this.#index.isComplete ? count(this.#index.objects.size) : "–"),
          figure(text.size, bytes(state.bytes), { note: (config.max_bytes ?? -1) > 0 && text.ofSize(bytes(config.max_bytes)) }),
          figure(text.ttl, config.max_age ? durationNs(config.max_age) : common.never),
          figure(text.state, config.sealed ? text.sealed : text.open),
          figure(text.storage, text.storageOf(config.storage ?? "file", 1), { note: replicas > 1 && text.storageOf(config.storage ?? "file", replicas) }),
        ),
      );
    };
    draw();
    this.#index.addEventListener("change", draw);
    poll({
      every: SELDOM,
      signal: this.#place.signal,
      ask: () => bucketInfo(this.#store.link, PREFIX, this.#store.name),
      show: (info) => {
        this.#store.info = info;
        draw();
        void this.#index.compare(info).catch(() => {}); // it is tried again with the next info
      },
      failed: (error) => {
        if (error instanceof NoBucket) return replace(this.#place.host, failure(error, h("a", { class: "button", href: to("objects") }, text.title)));
        return KEPT;
      },
    });
  }

  /**
   * Show an object; its address is that of the page from then on.
   *
   * @param {string} name
   * @param {boolean} isNew a new address
   */
  open(name, isNew) {
    if (isNew) history.pushState(null, "", this.#address(name));
    this.#close();
    this.#shown = new AbortController();
    this.#place.signal.addEventListener("abort", () => this.#shown?.abort());
    const view = new ObjectView(this.#store, this.#index, name, {
      isReadOnly: this.#place.app.isReadOnly,
      signal: this.#shown.signal,
      renamed: (other) => this.open(other, true),
      close: () => {
        history.pushState(null, "", this.#address());
        this.#close();
        this.#list.select("");
      },
    });
    replace(this.#side, view.element);
    this.#panes.classList.add("has-key");
    this.#list.select(name);
    if (isNew && matchMedia(NARROW).matches) view.element.scrollIntoView();
  }

  #close() {
    this.#shown?.abort();
    replace(this.#side);
    this.#panes.classList.remove("has-key");
  }

  /** @param {string} [name] of an object */
  #address(name) {
    return to("objects", name ? [this.#store.name, name] : [this.#store.name], Object.fromEntries(addressQuery()));
  }

  #edit() {
    const { link, name, config } = this.#store;
    openEditBucket(link, { title: text.editBucket, bucket: name, hasKeys: false, config, changed: withSettings, signal: this.#place.signal, done: () => void this.#again() });
  }

  async #again() {
    this.#store.info = await bucketInfo(this.#store.link, PREFIX, this.#store.name);
    if (this.#place.signal.aborted) return;
    this.#drawActions();
    this.#index.dispatchEvent(new Event("change"));
  }

  #seal() {
    const { link, name, config } = this.#store;
    openDanger({
      title: text.sealTitle, lost: text.sealLost, name, verb: text.seal, doing: text.sealing(name), done: text.sealedNow(name), signal: this.#place.signal,
      run: () => sealBucket(link, config).then(() => this.#again()),
    });
  }

  #delete() {
    const { link, name, config, info } = this.#store;
    openDanger({
      title: text.deleteBucketTitle, lost: text.deleteBucketLost(bytes(info.state.bytes)), name, verb: text.deleteBucket, doing: text.deletingBucket(name),
      done: text.bucketDeleted(name), signal: this.#place.signal,
      run: async () => {
        await deleteStream(link, config.name);
        if (!this.#place.signal.aborted) this.#place.go(to("objects"));
      },
    });
  }
}
/** Where the chosen one stands in the place of the list, as in styles/pages/buckets.css. */
const NARROW = "(max-width: 67.99rem)";
