/** The forms of objects: another name or description, a link. */

import { isBucketName } from "../../nats/buckets.js";
import { text } from "../../text/objects.js";
import { openForm } from "../../ui/dialog.js";
import { field, input } from "../../ui/fields.js";
import { say } from "../../ui/toasts.js";

/** @typedef {import("../../nats/objects.js").Store} Store */
/** @typedef {import("../../nats/object_facts.js").ObjectFacts} ObjectFacts */

/** @param {string} value */
const nameProblem = (value) => (value ? "" : text.nameMissing);

/**
 * @param {Store} store
 * @param {ObjectFacts} facts
 * @param {{ signal: AbortSignal, done: (name: string) => void }} options
 */
export function openRename(store, facts, { signal, done }) {
  const name = field(text.name, input({ value: facts.name }), { check: nameProblem });
  const description = field(text.description, input({ value: facts.description }));
  openForm(text.editTitle, {
    signal,
    verb: text.save,
    fields: [name.element, description.element],
    isRight: name.isRight,
    run: async () => {
      await store.rename(facts, { name: name.value(), description: description.value().trim() });
      say(text.saved);
      done(name.value());
    },
  });
}

/**
 * @param {Store} store
 * @param {{ signal: AbortSignal, done: (name: string) => void }} options
 */
export function openLink(store, { signal, done }) {
  const name = field(text.name, input(), { check: nameProblem });
  const bucket = field(text.bucket, input({ class: "mono", value: store.name }), { check: (value) => (isBucketName(value) ? "" : text.bucketWrong) });
  const target = field(text.target, input(), { hint: text.targetHint });
  openForm(text.addLinkTitle, {
    signal,
    verb: text.create,
    fields: [name.element, bucket.element, target.element],
    isRight: () => [name.isRight(), bucket.isRight()].every(Boolean),
    run: async () => {
      await store.addLink(name.value(), { bucket: bucket.value(), name: target.value() });
      say(text.linked(name.value()));
      done(name.value());
    },
  });
}
