/** A file that the browser saves, made in the page. */

import { h } from "../dom/element.js";

/**
 * Have the browser save a file.
 *
 * @param {string} name
 * @param {BlobPart[]} parts
 * @param {string} [type] its media type
 */
export function saveFile(name, parts, type = "application/octet-stream") {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: address, download: fileName(name) }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // by then the browser has read it
}

/**
 * A text as the name of a file: what is no letter or digit of any script, and may mean something to a system of files, becomes "_".
 * @param {string} text
 */
export function fileName(text) {
  return text.replace(/[^\p{L}\p{N}_.@+=-]+/gu, "_").replace(/^[._]+/, "").slice(0, 120) || "file";
}
