/** Files that a person chooses or drops, on their way into a bucket. */

import { transfers } from "../../data/transfers.js";
import { foreign, h } from "../../dom/element.js";
import { bytes } from "../../format.js";
import { WrongDigest } from "../../nats/objects.js";
import { explained } from "../../text/problems.js";
import { text } from "../../text/objects.js";
import { openForm } from "../../ui/dialog.js";
import { say } from "../../ui/toasts.js";

/** @typedef {import("../../nats/objects.js").Store} Store */

/** So many files are taken at once. */
const MOST_FILES = 100;

export class Uploads {
  /**
   * @param {Store} store
   * @param {import("../../data/object_index.js").ObjectIndex} index
   * @param {AbortSignal} signal
   */
  constructor(store, index, signal) {
    this.#store = store;
    this.#index = index;
    this.#signal = signal;
    this.#picker = h("input", { type: "file", multiple: true, hidden: true, "aria-label": text.upload, onchange: () => { this.#take(this.#picker.files); this.#picker.value = ""; } });
    document.body.append(this.#picker);
    signal.addEventListener("abort", () => this.#picker.remove());
  }

  /** @type {Store} */
  #store;
  /** @type {import("../../data/object_index.js").ObjectIndex} */
  #index;
  /** @type {AbortSignal} */
  #signal;
  /** @type {HTMLInputElement} */
  #picker;

  choose() {
    this.#picker.click();
  }

  /**
   * Take files that are dropped on an element, or say why they cannot be taken.
   * @param {HTMLElement} place
   * @param {() => string} cannot the reason, or ""
   */
  takeDrops(place, cannot) {
    const mark = (/** @type {DragEvent} */ event, /** @type {boolean} */ isOver) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      place.classList.toggle("is-over", isOver && !cannot());
    };
    place.addEventListener("dragover", (event) => mark(event, true));
    place.addEventListener("dragleave", (event) => mark(event, false));
    place.addEventListener("drop", (event) => {
      mark(event, false);
      const reason = cannot();
      if (reason) say(reason, { tone: "bad" });
      else this.#take(event.dataTransfer?.files ?? null);
    });
  }

  /** @param {FileList | null} list */
  #take(list) {
    const files = [...(list ?? [])];
    if (!files.length) return;
    if (files.length > MOST_FILES) return void say(text.uploadsFull(MOST_FILES), { tone: "bad" });
    const replaced = files.filter((file) => this.#index.objects.has(file.name));
    if (!replaced.length) return this.#send(files);
    openForm(text.replaceTitle, {
      signal: this.#signal,
      verb: text.replace,
      kind: "danger main",
      fields: [h("ul", {}, replaced.map((file) => h("li", {}, foreign(file.name), ` · ${bytes(file.size)}`))), h("p", { class: "muted" }, text.replaceNote)],
      run: async () => this.#send(files),
    });
    return undefined;
  }

  /** @param {File[]} files */
  #send(files) {
    const store = this.#store;
    for (const file of files) {
      void transfers
        .add({ direction: "up", bucket: store.name, name: file.name, size: file.size }, (transfer, signal) =>
          store.put(file.name, file, { signal, progress: (done) => { transfer.done = done; transfers.tell(); } }))
        .then(({ state, error }) => {
          if (state === "done") say(text.stored(file.name));
          else if (state === "failed") say(text.failed(file.name, words(error)), { tone: "bad" });
        });
    }
  }
}

/** An error in one line. @param {unknown} error */
export function words(error) {
  if (error instanceof WrongDigest) return text.wrongDigest;
  const { title, detail } = explained(error);
  return [title, detail].filter(Boolean).join(" ");
}
