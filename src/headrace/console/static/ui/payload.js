/**
 * The payload of a message: text, JSON that folds, hexadecimal, base64, or what gzip unpacks. It is shown up to a
 * size; the rest when a person asks for it.
 */

import { readExactly } from "../data/exact_json.js";
import { foreign, h, replace, visible } from "../dom/element.js";
import { bytes } from "../format.js";
import { text } from "../text/common.js";
import { button, choice } from "./blocks.js";

/** @typedef {"text" | "json" | "hex" | "base64" | "gzip"} Form */

/** Of larger payloads so much is shown at first. */
export const CUT = 262_144;
/** JSON that is larger is read in a worker. */
const LARGE_JSON = 1_048_576;
/** What gzip may unpack to here: a small payload can hide a large one. */
const LARGEST_UNPACKED = 16 * 1_048_576;

/**
 * A payload with the choice of its forms.
 * @param {Uint8Array} data
 * @param {{ form?: Form }} [options]
 */
export function payloadView(data, { form = likelyForm(data) } = {}) {
  const body = h("div");
  let isWhole = data.length <= CUT;
  let chosen = form;
  let round = 0;
  const draw = async () => {
    const own = (round += 1);
    const found = await shown(data, chosen, isWhole);
    if (own !== round) return; // another form was chosen meanwhile, and is there already
    replace(body, found);
    if (!isWhole && chosen !== "gzip") body.append(h("p", { class: "row" }, text.cutAt(bytes(CUT)), button(text.loadAll(bytes(data.length)), () => { isWhole = true; void draw(); }, { kind: "small" })));
  };
  void draw();
  const forms = choice(text.form, [["text", text.formText], ["json", "JSON"], ["hex", text.formHex], ["base64", "Base64"], ["gzip", "gzip"]], form, (value) => {
    chosen = value;
    void draw();
  });
  return h("div", { class: "stack payload" }, h("div", { class: "toolbar" }, forms, h("span", { class: "muted small" }, bytes(data.length))), body);
}

/**
 * A payload in one line, for tables: its text, or its first bytes.
 * @param {Uint8Array} data
 * @param {number} [length]
 */
export function payloadLine(data, length = 160) {
  if (!data.length) return h("span", { class: "muted" }, text.empty);
  const part = data.subarray(0, length * 4);
  const line = isText(part) ? decode(part).replace(/\s+/g, " ").slice(0, length) : hexLine(part.subarray(0, 24));
  return foreign(line, "mono");
}

/** @param {Uint8Array} data @returns {Form} */
export function likelyForm(data) {
  if (data[0] === 0x1f && data[1] === 0x8b) return "gzip";
  if (!isText(data.subarray(0, 4096))) return "hex";
  const first = decode(data.subarray(0, 64)).trimStart()[0];
  return first === "{" || first === "[" ? "json" : "text";
}

/** @param {Uint8Array} data */
function isText(data) {
  const read = new TextDecoder("utf-8").decode(data, { stream: true });
  let odd = 0;
  for (const letter of read) {
    const code = letter.codePointAt(0) ?? 0;
    if (code === 0xfffd || code < 9 || (code > 13 && code < 32)) odd += 1;
  }
  return odd <= read.length / 20;
}

/** @param {Uint8Array} data */
export function decode(data) {
  return new TextDecoder().decode(data);
}

/**
 * A payload in a form, all of it or its beginning. The beginning of JSON is text; gzip is unpacked from all of it.
 *
 * @param {Uint8Array} data
 * @param {Form} form
 * @param {boolean} isWhole
 * @returns {Promise<Node>}
 */
async function shown(data, form, isWhole) {
  const part = isWhole ? data : data.subarray(0, CUT);
  switch (form) {
    case "text":
      return textOf(part);
    case "hex":
      return h("pre", { class: "code", tabindex: "0" }, hexDump(part));
    case "base64":
      return h("pre", { class: "code", tabindex: "0" }, toBase64(part));
    case "gzip":
      return unpacked(data);
    case "json":
      return isWhole ? jsonOf(data) : textOf(part);
  }
}

/** @param {Uint8Array} data */
function textOf(data) {
  return h("pre", { class: "code", dir: "auto", tabindex: "0" }, visible(decode(data)));
}

/** @param {Uint8Array} data */
async function jsonOf(data) {
  try {
    const value = data.length > LARGE_JSON ? await parsedElsewhere(data) : readExactly(decode(data));
    return jsonTree(value);
  } catch (error) {
    return h("div", { class: "stack" }, h("p", { class: "muted" }, text.noJson(String(/** @type {Error} */ (error).message))), textOf(data));
  }
}

/**
 * @param {Uint8Array} data
 * @returns {Promise<unknown>}
 */
function parsedElsewhere(data) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(/** @type {any} */ (workerScript()), { type: "module" });
    worker.onmessage = ({ data: answer }) => {
      worker.terminate();
      if ("error" in answer) reject(new Error(answer.error));
      else resolve(answer.value);
    };
    worker.onerror = () => {
      worker.terminate();
      reject(new Error("the worker could not be started"));
    };
    worker.postMessage(data);
  });
}

/** The address of the worker, as the content security policy wants it (Trusted Types): this one and no other. */
function workerScript() {
  const address = new URL("./json_worker.js", import.meta.url).href;
  workers ??= /** @type {any} */ (globalThis).trustedTypes?.createPolicy("headrace-worker", { createScriptURL: () => address }) ?? null;
  return workers ? workers.createScriptURL("") : address;
}

/** @type {{ createScriptURL: (text: string) => unknown } | null | undefined} */
let workers;

/** @param {Uint8Array} data */
async function unpacked(data) {
  try {
    const stream = new Blob([/** @type {BlobPart} */ (data)]).stream().pipeThrough(new DecompressionStream("gzip"));
    const parts = [];
    let size = 0;
    for await (const part of /** @type {any} */ (stream)) {
      size += part.length;
      if (size > LARGEST_UNPACKED) throw new Error(text.tooLarge(bytes(LARGEST_UNPACKED)));
      parts.push(part);
    }
    const whole = new Uint8Array(await new Blob(parts).arrayBuffer());
    const form = likelyForm(whole);
    const isWhole = whole.length <= CUT;
    const found = await shown(whole, form === "gzip" ? "hex" : form, isWhole);
    return h("div", { class: "stack" }, found, !isWhole && h("p", { class: "muted" }, text.cutAt(bytes(CUT))));
  } catch (error) {
    return h("p", { class: "muted" }, text.noGzip(String(/** @type {Error} */ (error).message ?? "")));
  }
}

/**
 * A value of JSON as a tree that folds; what is deep or long is folded at first, and made when it is opened.
 * @param {unknown} value
 */
export function jsonTree(value) {
  return h("div", { class: "json-tree code" }, branch(value, "", 0));
}

/**
 * @param {unknown} value
 * @param {string} key
 * @param {number} depth
 * @returns {HTMLElement}
 */
function branch(value, key, depth) {
  const name = key ? [foreign(key, "key"), ": "] : [];
  if (value === null || typeof value !== "object") return h("div", {}, name, leaf(value));
  const entries = Array.isArray(value) ? value.map((item, place) => /** @type {[string, unknown]} */ ([String(place), item])) : Object.entries(value);
  if (!entries.length) return h("div", {}, name, Array.isArray(value) ? "[]" : "{}");
  const open = depth < 2 && entries.length <= 50;
  const label = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const box = h("div");
  const details = h("details", { open }, h("summary", {}, name, h("span", { class: "muted" }, label)), box);
  const draw = () => {
    if (details.open && !box.childNodes.length) box.append(...entries.slice(0, 2_000).map(([inner, item]) => branch(item, inner, depth + 1)), ...(entries.length > 2_000 ? [h("div", { class: "muted" }, text.more(entries.length - 2_000))] : []));
  };
  details.addEventListener("toggle", draw);
  draw();
  return details;
}

/** @param {unknown} value */
function leaf(value) {
  return typeof value === "string" ? h("span", { class: "text foreign", dir: "auto" }, visible(JSON.stringify(value))) : h("span", { class: "literal" }, String(value));
}

/** @param {Uint8Array} data */
function hexLine(data) {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** @param {Uint8Array} data */
function hexDump(data) {
  const lines = [];
  for (let start = 0; start < data.length; start += 16) {
    const part = data.subarray(start, start + 16);
    const letters = Array.from(part, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${hexLine(part).padEnd(48)} ${letters}`);
  }
  return lines.join("\n");
}

/** @param {Uint8Array} data */
export function toBase64(data) {
  let letters = "";
  for (let start = 0; start < data.length; start += 8192) letters += String.fromCharCode(...data.subarray(start, start + 8192));
  return btoa(letters);
}
