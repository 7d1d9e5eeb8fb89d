/** The editor of a value: text that is checked as JSON, a file in its place, a time of its own; it writes only what nobody changed meanwhile. */

import { indented } from "../../data/exact_json.js";
import { h, replace } from "../../dom/element.js";
import { bytes } from "../../format.js";
import { Conflict } from "../../nats/keyvalue.js";
import { text } from "../../text/keyvalue.js";
import { button } from "../../ui/blocks.js";
import { difference } from "../../ui/difference.js";
import { showProblem } from "../../ui/dialog.js";
import { checkbox, field, input, textarea } from "../../ui/fields.js";
import { payloadView } from "../../ui/payload.js";
import { say } from "../../ui/toasts.js";
import { durationProblem, ns } from "../buckets/form.js";
import { bytesOf, isJson, jsonProblem, mostOf, textOf } from "./value.js";

/** @typedef {import("../../nats/keyvalue.js").Bucket} Bucket */
/** @typedef {import("../../nats/keyvalue.js").Entry} Entry */

/**
 * A field for a text with the check that it is JSON, or a file in its place.
 *
 * @param {Bucket} bucket
 * @param {string | null} value null: it is no text that can be edited
 */
export function valueFields(bucket, value) {
  const area = textarea({ class: "mono", value: value ?? "", rows: 12 });
  const check = checkbox(text.checkJson, { checked: isJson(value ?? ""), onchange: () => draw() });
  const verdict = h("span", { class: "small muted", role: "status" });
  const tidy = button(text.tidy, () => { area.value = indented(area.value); draw(); }, { kind: "small" });
  const shown = field(text.value, area, { check: (typed) => (file ? "" : problemOf(typed)) });
  const picker = h("input", { type: "file", "aria-label": text.file, class: "hidden-visually", tabindex: "-1", onchange: () => void take() });
  const noText = h("p", { class: "muted", hidden: value !== null }, text.noEdit);
  /** @type {Uint8Array | null} */
  let file = null;
  const most = mostOf(bucket);
  const problemOf = (/** @type {string} */ typed) => {
    if (bytesOf(typed).length > most) return text.tooLarge(bytes(most));
    const wrong = check.control.checked ? jsonProblem(typed) : "";
    return wrong && text.jsonWrong(wrong);
  };
  const draw = () => {
    const wrong = jsonProblem(area.value);
    verdict.textContent = check.control.checked ? (wrong ? text.jsonWrong(wrong) : text.jsonRight) : "";
    tidy.disabled = Boolean(wrong);
    shown.complain("");
  };
  const take = async () => {
    const chosen = picker.files?.[0];
    if (!chosen) return;
    if (chosen.size > most) return void say(text.tooLarge(bytes(most)), { tone: "bad" });
    const data = new Uint8Array(await chosen.arrayBuffer());
    const found = textOf(data);
    file = found === null ? data : null;
    if (found !== null) area.value = found;
    shown.element.hidden = found === null;
    noText.hidden = found !== null;
    noText.textContent = `${chosen.name}: ${bytes(chosen.size)}`;
    draw();
  };
  area.addEventListener("input", draw);
  shown.element.hidden = value === null;
  draw();
  return {
    elements: [shown.element, noText, h("div", { class: "toolbar" }, check.element, tidy, button(text.file, () => picker.click(), { kind: "small", icon: "upload" }), picker, verdict)],
    isRight: () => (value === null && !file && shown.element.hidden ? false : shown.isRight()),
    isChanged: () => Boolean(file) || area.value !== (value ?? ""),
    read: () => file ?? bytesOf(area.value),
  };
}

/**
 * The field of a time of its own, or null where the bucket does not allow one.
 * @param {Bucket} bucket
 */
export function ttlField(bucket) {
  return bucket.hasTtl ? field(text.ttlOfKey, input({ class: "short" }), { hint: text.ttlOfKeyHint, check: durationProblem }) : null;
}

export class Editor {
  /**
   * @param {Bucket} bucket
   * @param {string} key
   * @param {Entry | null} entry what is there now
   * @param {{ saved: () => void }} options
   */
  constructor(bucket, key, entry, { saved }) {
    this.#bucket = bucket;
    this.#key = key;
    this.#saved = saved;
    this.#begin(entry, entry && entry.operation === "PUT" ? textOf(entry.value) : "");
  }

  element = h("div", { class: "kv-editor" });
  /** @type {Bucket} */
  #bucket;
  #key = "";
  /** @type {() => void} */
  #saved;
  /** @type {ReturnType<typeof valueFields>} */
  #fields = /** @type {any} */ (null);

  get isDirty() {
    return this.#fields.isChanged();
  }

  /**
   * @param {Entry | null} entry
   * @param {string | null} value
   */
  #begin(entry, value) {
    const fields = (this.#fields = valueFields(this.#bucket, value));
    const ttl = ttlField(this.#bucket);
    const problem = h("div", { class: "problem", role: "alert", hidden: true });
    const conflict = h("div");
    const revision = entry?.revision ?? 0;
    const save = async (/** @type {number} */ expected) => {
      if (![fields.isRight(), ttl?.isRight() ?? true].every(Boolean)) return;
      problem.hidden = true;
      const value = fields.read();
      try {
        const written = await this.#bucket.put(this.#key, value, { expected, ttlNs: ttl ? ns(ttl.value()) : undefined });
        say(text.saved(written));
        this.#saved();
      } catch (error) {
        if (error instanceof Conflict) replace(conflict, this.#conflict(error, value, () => void save(error.found?.revision ?? 0)));
        else showProblem(problem, error);
      }
    };
    replace(
      this.element,
      h(
        "form",
        { class: "form", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void save(revision); } },
        fields.elements,
        ttl?.element,
        problem,
        conflict,
        h("div", { class: "toolbar" }, h("button", { class: "button main", type: "submit" }, text.save), h("span", { class: "muted small" }, text.saveNote(revision))),
      ),
    );
  }

  /**
   * Both values, and what to do.
   *
   * @param {Conflict} conflict
   * @param {Uint8Array} mine
   * @param {() => void} again
   */
  #conflict({ found, expected }, mine, again) {
    const theirs = found && found.operation === "PUT" ? found.value : null;
    const [old, young] = [theirs && textOf(theirs), textOf(mine)];
    return h(
      "div",
      { class: "kv-conflict stack", role: "alert" },
      h("div", {}, h("strong", {}, text.conflict), h("p", {}, text.conflictNext(expected))),
      h(
        "div",
        { class: "kv-sides" },
        h("div", {}, h("h3", {}, theirs ? text.theirs(found?.revision ?? 0) : text.theirsNone), theirs && payloadView(theirs, { form: "text" })),
        h("div", {}, h("h3", {}, text.mine), payloadView(mine, { form: "text" })),
      ),
      old !== null && young !== null && difference(old, young),
      h("div", { class: "buttons" }, button(text.takeTheirs, () => this.#saved()), button(text.writeMine, again, { kind: "danger" })),
    );
  }
}
