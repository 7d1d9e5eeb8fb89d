/** The form of a new key. */

import { h } from "../../dom/element.js";
import { Conflict, isKey } from "../../nats/keyvalue.js";
import { text } from "../../text/keyvalue.js";
import { openForm } from "../../ui/dialog.js";
import { field, input } from "../../ui/fields.js";
import { say } from "../../ui/toasts.js";
import { ns } from "../buckets/form.js";
import { ttlField, valueFields } from "./editor.js";

/**
 * @param {import("../../nats/keyvalue.js").Bucket} bucket
 * @param {{ signal: AbortSignal, open: (key: string) => void }} options
 */
export function openNewKey(bucket, { signal, open }) {
  const key = field(text.key, input({ class: "mono", autocapitalize: "off" }), { hint: text.keyHint, check: (typed) => (isKey(typed) ? "" : text.keyWrong) });
  const value = valueFields(bucket, "");
  const ttl = ttlField(bucket);
  const dialog = openForm(text.newKeyTitle, {
    signal,
    wide: true,
    verb: text.set,
    fields: [key.element, h("div", { class: "form" }, value.elements), ttl?.element],
    isRight: () => [key.isRight(), value.isRight(), ttl?.isRight() ?? true].every(Boolean),
    run: async () => {
      try {
        say(text.saved(await bucket.create(key.value(), value.read(), { ttlNs: ttl ? ns(ttl.value()) : undefined })));
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
        const there = h("button", { class: "button small", type: "button", onclick: () => { dialog.close(); open(key.value()); } }, text.openIt);
        key.complain(text.keyThere(error.found?.revision ?? 0));
        key.element.append(there);
        throw new Error(text.keyThere(error.found?.revision ?? 0));
      }
      open(key.value());
    },
  });
}
