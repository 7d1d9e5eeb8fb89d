/** The list of buckets, of keys or of objects: names first, the rest for the rows in view. */

import { KEPT, OFTEN, SELDOM, poll } from "../../data/poll.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bucketInfos, bucketNames } from "../../nats/buckets.js";
import { button, card } from "../../ui/blocks.js";
import { failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";
import { text } from "../../text/buckets.js";
import { text as common } from "../../text/common.js";

/** @typedef {import("../index.js").Place} Place */
/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("../../dom/element.js").Child} Child */
/** @typedef {{ name: string, info: StreamInfo | undefined }} BucketRow info: not asked for yet */

/**
 * @param {Place} place
 * @param {{ prefix: string, page: string, label: string, columns: import("../../ui/table.js").Column<BucketRow>[], href: (name: string) => string, empty: () => Child }} options
 * @returns {{ element: HTMLElement, refresh: () => void }}
 */
export function bucketList(place, { prefix, page, label, columns, href, empty }) {
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  const infos = /** @type {Map<string, StreamInfo>} */ (new Map());
  let names = /** @type {string[] | null} */ (null);
  let inView = /** @type {string[]} */ ([]);
  let refresh = () => {};
  /** @type {Table<BucketRow>} */
  const table = new Table(inAddress({
    name: page,
    label,
    columns: [{ name: "name", label: text.bucket, cell: (row) => h("a", { href: href(row.name) }, foreign(row.name)), sort: (row) => row.name }, ...columns],
    key: (row) => row.name,
    words: (row) => `${row.name} ${row.info?.config.description ?? ""}`,
    sorted: ["name", "up"],
    open: (row) => place.go(href(row.name)),
    json: (row) => row.info ?? { name: row.name },
    empty: () => (names ? empty() : h("div", { class: "empty" }, common.loading)),
    seen: (rows) => {
      inView = rows.map((row) => row.name);
      if (inView.some((name) => !infos.has(name))) setTimeout(refresh, 0);
    },
  }));
  const box = h("div", {}, card("", { flush: true }, table.element));
  const draw = () => table.setRows((names ?? []).map((name) => ({ name, info: infos.get(name) })));
  refresh = poll({
    every: () => ((names?.length ?? 0) > 1_000 ? SELDOM : OFTEN),
    signal: place.signal,
    ask: async () => {
      const found = await bucketNames(link, prefix);
      const wanted = new Set(found.length <= FEW ? found : inView);
      return { found, details: await bucketInfos(link, prefix, found.filter((name) => wanted.has(name))) };
    },
    show: ({ found, details }) => {
      if (!box.contains(table.element)) replace(box, card("", { flush: true }, table.element));
      names = found;
      for (const [name, info] of details) infos.set(name, info);
      const there = new Set(found);
      for (const name of infos.keys()) if (!there.has(name)) infos.delete(name);
      draw();
    },
    failed: (error) => {
      if (!names) return replace(box, failure(error, button(common.retry, () => refresh())));
      return KEPT;
    },
  });
  return { element: box, refresh };
}

/** Of so many buckets all are asked for, not only those in view. */
const FEW = 40;
