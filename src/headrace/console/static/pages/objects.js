/** Objects: the buckets of the account; of one its objects, with upload and download; of an object its facts and what it looks like. */

import { to } from "../app.js";
import { h } from "../dom/element.js";
import { useStyles } from "../dom/styles.js";
import { bytes, durationNs } from "../format.js";
import { PREFIX, storeConfig } from "../nats/objects.js";
import { text } from "../text/objects.js";
import { ago, button, meter, onCommandLine, pageHead, status } from "../ui/blocks.js";
import { empty } from "../ui/empty.js";
import { whyNot } from "../ui/rights.js";
import { openNewBucket } from "./buckets/form.js";
import { bucketList } from "./buckets/list.js";
import { showStore } from "./objects/store.js";

/** @typedef {import("./index.js").Place} Place */

/** @param {Place} place */
export async function show(place) {
  await Promise.all([useStyles("buckets"), useStyles("objects")]);
  if (place.path.length) await showStore(place);
  else showStores(place);
}

/** @param {Place} place */
function showStores(place) {
  const { app, host, signal, go } = place;
  const link = /** @type {import("../nats/link.js").Link} */ (app.account);
  const create = () =>
    openNewBucket(link, { title: text.newBucket, hasKeys: false, config: storeConfig, signal, done: (name) => go(to("objects", [name])) });
  const newBucket = () => !app.isReadOnly && button(text.newBucket, create, { icon: "plus", kind: "main", disabled: () => whyNot(link, "$JS.API.STREAM.CREATE.*") });
  const list = bucketList(place, {
    prefix: PREFIX,
    page: "objects",
    label: text.title,
    href: (name) => to("objects", [name]),
    columns: [
      {
        name: "size", label: text.size, number: true, sort: (row) => row.info?.state.bytes,
        cell: (row) => row.info && meter(row.info.state.bytes, row.info.config.max_bytes ?? -1, bytes(row.info.state.bytes)),
      },
      { name: "ttl", label: text.ttl, number: true, cell: (row) => (row.info?.config.max_age ? durationNs(row.info.config.max_age) : "–"), sort: (row) => row.info?.config.max_age || null },
      { name: "state", label: text.state, cell: (row) => row.info && sealedWord(row.info.config.sealed), sort: (row) => (row.info?.config.sealed ? 1 : 0) },
      { name: "changed", label: text.changed, cell: (row) => row.info && ago(row.info.state.last_ts), sort: (row) => row.info?.state.last_ts },
    ],
    empty: () => empty(text.noBuckets, h("p", {}, text.noBucketsNext), newBucket(), onCommandLine("headrace object add files")),
  });
  host.append(pageHead(text.title, { sub: text.sub, actions: [newBucket()] }), list.element, onCommandLine("headrace object ls", "headrace object add files --max-bytes 10GB"));
}

/** @param {boolean | undefined} isSealed */
function sealedWord(isSealed) {
  return isSealed ? status("idle", text.sealed) : status("good", text.open);
}
