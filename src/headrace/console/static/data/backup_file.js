/**
 * A backup of a stream as one file: a tar archive with `NAME/backup.json` and `NAME/stream.tar.s2`, which is, when
 * it is unpacked, the directory that `headrace stream backup` and nats-server's own tool write and read.
 */

import { fileName } from "../ui/download.js";

/** @typedef {import("../nats/jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("../nats/jetstream.js").StreamState} StreamState */
/** @typedef {{ config: StreamConfig, state: StreamState, data: Blob }} Backup */

const FACTS = "backup.json";
/** The bytes of the stream; later versions of nats-server's tool call them the second name. */
const DATA = ["stream.tar.s2", "stream.arc.s2"];
const BLOCK = 512;
/** A larger `backup.json` is none. */
const LARGEST_FACTS = 1_048_576;

/**
 * @param {StreamConfig} config
 * @param {StreamState} state
 * @param {Uint8Array[]} parts
 * @returns {Blob}
 */
export function backupFile(config, state, parts) {
  const facts = new TextEncoder().encode(JSON.stringify({ type: "io.nats.jetstream.api.v1.stream_snapshot_response", config, state }));
  const folder = fileName(config.name).slice(0, 80);
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  return new Blob(
    /** @type {BlobPart[]} */ ([
      tarHeader(`${folder}/${FACTS}`, facts.length), facts, padding(facts.length),
      tarHeader(`${folder}/${DATA[0]}`, size), ...parts, padding(size),
      new Uint8Array(2 * BLOCK),
    ]),
    { type: "application/x-tar" },
  );
}

/**
 * The backup in the files that a person chose: one archive, or the two files of a directory. Null where it is none.
 *
 * @param {File[]} files
 * @returns {Promise<Backup | null>}
 */
export async function readBackup(files) {
  const parts = files.length === 1 ? await tarEntries(files[0]) : new Map(files.map((file) => [file.name, /** @type {Blob} */ (file)]));
  const facts = parts?.get(FACTS);
  const data = DATA.map((name) => parts?.get(name)).find(Boolean);
  if (!facts || !data || facts.size > LARGEST_FACTS) return null;
  try {
    const { config, state } = JSON.parse(await facts.text());
    return typeof config?.name === "string" && state && typeof state === "object" ? { config, state, data } : null;
  } catch {
    return null;
  }
}

/**
 * The files of a tar archive by their names without folders; null where it is none, or is cut off.
 * @param {Blob} archive
 * @returns {Promise<Map<string, Blob> | null>}
 */
async function tarEntries(archive) {
  const found = new Map();
  for (let place = 0; place + BLOCK <= archive.size; ) {
    const header = new Uint8Array(await archive.slice(place, place + BLOCK).arrayBuffer());
    if (header.every((byte) => byte === 0)) return found;
    const size = parseInt(letters(header, 124, 12), 8);
    if (checksum(header) !== parseInt(letters(header, 148, 8), 8) || !(size >= 0) || place + BLOCK + size > archive.size) return null;
    found.set(letters(header, 0, 100).split("/").at(-1), archive.slice(place + BLOCK, place + BLOCK + size));
    place += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return null;
}

/**
 * @param {string} name of ASCII letters up to 100 (others are written as `_`)
 * @param {number} size below 8 GiB
 */
function tarHeader(name, size) {
  const header = new Uint8Array(BLOCK);
  const put = (/** @type {string} */ words, /** @type {number} */ place) => header.set(new TextEncoder().encode(words), place);
  const octal = (/** @type {number} */ value, /** @type {number} */ width) => `${value.toString(8).padStart(width - 1, "0")}\0`;
  put(name.replace(/[^\x20-\x7e]/g, "_").slice(0, 100), 0);
  put(octal(0o644, 8), 100);
  put(octal(0, 8), 108);
  put(octal(0, 8), 116);
  put(octal(size, 12), 124);
  put(octal(Math.floor(Date.now() / 1_000), 12), 136);
  put("0", 156);
  put("ustar\0" + "00", 257);
  put(`${checksum(header).toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

/** The sum of a header's bytes, those of the sum itself as spaces. @param {Uint8Array} header */
function checksum(header) {
  return header.reduce((sum, byte, place) => sum + (place >= 148 && place < 156 ? 32 : byte), 0);
}

/** @param {Uint8Array} header @param {number} place @param {number} length */
function letters(header, place, length) {
  return new TextDecoder("latin1").decode(header.subarray(place, place + length)).split("\0")[0];
}

/** @param {number} size */
function padding(size) {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}
