/**
 * Keys as a tree, cut at dots and slashes. Folders are counted at once; what is in a folder is put in order when it
 * is opened.
 * Never here: elements.
 */

/** @typedef {{ name: string, path: string, count: number, key: string | null, children: Map<string, Folder> | null }} Folder children: made with the first */
/** @typedef {{ path: string, name: string, depth: number, key: string | null, count: number, isOpen: boolean }} TreeRow count: keys below, 0 of a leaf */

const collator = new Intl.Collator(undefined, { numeric: true });
/** Larger folders are in the order of their letters' codes, which takes a tenth of the time. */
const MOST_COLLATED = 5_000;

/**
 * @param {Iterable<string>} keys
 * @returns {Folder}
 */
export function treeOf(keys) {
  const root = folder("", "");
  for (const key of keys) {
    let place = root;
    let start = 0;
    for (let end = 0; end <= key.length; end += 1) {
      if (end < key.length && key[end] !== "." && key[end] !== "/") continue;
      place.count += 1;
      const part = key.slice(start, Math.min(key.length, end + 1));
      const children = (place.children ??= new Map());
      let next = children.get(part);
      if (!next) {
        next = folder(part, key.slice(0, end + 1));
        children.set(part, next);
      }
      place = next;
      start = end + 1;
    }
    place.key = key;
  }
  return root;
}

/**
 * The rows that are seen: of open folders what is in them. A folder alone in its parent is one row with it.
 *
 * @param {Folder} root
 * @param {(path: string) => boolean} isOpen
 * @returns {TreeRow[]}
 */
export function treeRows(root, isOpen) {
  const rows = /** @type {TreeRow[]} */ ([]);
  /** @param {Folder} place @param {number} depth */
  const walk = (place, depth) => {
    const children = [...(place.children?.values() ?? [])];
    children.sort(children.length > MOST_COLLATED ? plainly : (a, b) => collator.compare(a.name, b.name));
    for (const child of children) {
      let last = child;
      let name = child.name;
      while (last.key === null && last.children?.size === 1) {
        last = /** @type {Folder} */ (last.children.values().next().value);
        name += last.name;
      }
      const open = last.children !== null && isOpen(last.path);
      rows.push({ path: last.path, name, depth, key: last.key, count: last.count, isOpen: open });
      if (open) walk(last, depth + 1);
    }
  };
  walk(root, 0);
  return rows;
}

/**
 * The paths of the folders that a key is in.
 * @param {string} key
 */
export function foldersOf(key) {
  return [...key.matchAll(/[./]/g)].map(({ index }) => key.slice(0, (index ?? 0) + 1));
}

/** @param {Folder} a @param {Folder} b */
function plainly(a, b) {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/**
 * @param {string} name
 * @param {string} path
 * @returns {Folder}
 */
function folder(name, path) {
  return { name, path, count: 0, key: null, children: null };
}
