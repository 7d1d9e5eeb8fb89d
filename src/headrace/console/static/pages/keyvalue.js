/** Key-value: the buckets of the account; of one its keys as a tree, a list or as they change; of a key its value, its history, and what may be done with it. */

import { to } from "../app.js";
import { useStyles } from "../dom/styles.js";
import { foreign, h } from "../dom/element.js";
import { bytes, count, durationNs } from "../format.js";
import { bucketConfig, PREFIX } from "../nats/keyvalue.js";
import { text } from "../text/keyvalue.js";
import { ago, button, meter, onCommandLine, pageHead } from "../ui/blocks.js";
import { empty } from "../ui/empty.js";
import { whyNot } from "../ui/rights.js";
import { openNewBucket } from "./buckets/form.js";
import { bucketList } from "./buckets/list.js";
import { showBucket } from "./keyvalue/bucket.js";

/** @typedef {import("./index.js").Place} Place */

/** @param {Place} place */
export async function show(place) {
  await useStyles("buckets");
  if (place.path.length) await showBucket(place);
  else showBuckets(place);
}

/** @param {Place} place */
function showBuckets(place) {
  const { app, host, signal, go } = place;
  const link = /** @type {import("../nats/link.js").Link} */ (app.account);
  const create = () =>
    openNewBucket(link, { title: text.newBucket, hasKeys: true, config: bucketConfig, signal, done: (name) => go(to("keyvalue", [name])) });
  const newBucket = (/** @type {string} */ kind) => !app.isReadOnly && button(text.newBucket, create, { icon: "plus", kind, disabled: () => whyNot(link, "$JS.API.STREAM.CREATE.*") });
  const list = bucketList(place, {
    prefix: PREFIX,
    page: "keyvalue",
    label: text.title,
    href: (name) => to("keyvalue", [name]),
    columns: [
      { name: "keys", label: text.keys, number: true, cell: (row) => count(row.info && (row.info.state.num_subjects ?? 0)), sort: (row) => row.info?.state.num_subjects ?? 0 },
      { name: "values", label: text.values, number: true, cell: (row) => count(row.info?.state.messages), sort: (row) => row.info?.state.messages, hidden: true },
      {
        name: "size", label: text.size, number: true, sort: (row) => row.info?.state.bytes,
        cell: (row) => row.info && meter(row.info.state.bytes, row.info.config.max_bytes ?? -1, bytes(row.info.state.bytes)),
      },
      { name: "history", label: text.history, number: true, cell: (row) => count(row.info?.config.max_msgs_per_subject), sort: (row) => row.info?.config.max_msgs_per_subject },
      { name: "ttl", label: text.ttl, number: true, cell: (row) => (row.info?.config.max_age ? durationNs(row.info.config.max_age) : "–"), sort: (row) => row.info?.config.max_age || null },
      { name: "changed", label: text.changed, cell: (row) => row.info && ago(row.info.state.last_ts), sort: (row) => row.info?.state.last_ts },
      { name: "description", label: text.settings, cell: (row) => row.info && foreign(row.info.config.description ?? ""), hidden: true },
    ],
    empty: () => empty(text.noBuckets, h("p", {}, text.noBucketsNext), newBucket("main"), onCommandLine("headrace kv add settings --history 5")),
  });
  host.append(pageHead(text.title, { sub: text.sub, actions: [newBucket("main")] }), list.element, onCommandLine("headrace kv ls", "headrace kv add settings --history 5"));
}
