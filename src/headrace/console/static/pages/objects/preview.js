/**
 * What an object looks like: an image that the browser draws, or its text. Documents (HTML, SVG) are shown as their
 * text, never as documents.
 */

import { h } from "../../dom/element.js";
import { text } from "../../text/objects.js";
import { payloadView } from "../../ui/payload.js";

/** Larger objects are not read to be looked at. */
export const MOST_PREVIEWED = 1_048_576;

/** The first bytes of the images that are drawn. @type {[string, (data: Uint8Array) => boolean][]} */
const IMAGES = [
  ["image/png", (data) => begins(data, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])],
  ["image/jpeg", (data) => begins(data, [0xff, 0xd8, 0xff])],
  ["image/gif", (data) => begins(data, [0x47, 0x49, 0x46, 0x38])],
  ["image/webp", (data) => begins(data, [0x52, 0x49, 0x46, 0x46]) && begins(data.subarray(8), [0x57, 0x45, 0x42, 0x50])],
];

/**
 * The kind of an image by its first bytes, or "": its name and its headers are others' words.
 * @param {Uint8Array} data
 */
export function imageType(data) {
  return IMAGES.find(([, isIt]) => isIt(data))?.[0] ?? "";
}

/**
 * @param {string} name
 * @param {Uint8Array} data
 * @param {AbortSignal} signal
 */
export function preview(name, data, signal) {
  const type = imageType(data);
  if (!type) return payloadView(data);
  const address = URL.createObjectURL(new Blob([/** @type {BlobPart} */ (data)], { type }));
  signal.addEventListener("abort", () => URL.revokeObjectURL(address));
  const note = h("p", { class: "muted small" });
  const image = h("img", {
    src: address, alt: text.pictureOf(name),
    onload: () => { note.textContent = text.dimensions(image.naturalWidth, image.naturalHeight); },
    onerror: () => { image.hidden = true; note.textContent = text.noImage; },
  });
  return h("div", { class: "objects-preview stack" }, image, note);
}

/**
 * @param {Uint8Array} data
 * @param {number[]} first
 */
function begins(data, first) {
  return first.every((byte, place) => data[place] === byte);
}
