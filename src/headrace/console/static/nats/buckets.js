/**
 * What buckets of keys and of objects have in common: each is a stream with a prefix in its name.
 * Never here: keys (keyvalue.js), objects (objects.js).
 */

import { NoBucket, Refused } from "./errors.js";
import { streamInfo, streamNames, updateStream } from "./jetstream.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("./jetstream.js").StreamConfig} StreamConfig */

/** Within this time a message that is sent twice is stored once, in ns. */
const WINDOW = 120e9;

/** Clients take no other names of buckets. @param {string} name */
export function isBucketName(name) {
  return /^[a-zA-Z0-9_-]+$/.test(name);
}

/**
 * The names of buckets in order, mirrors of others too.
 *
 * @param {Link} link
 * @param {string} prefix of their streams
 */
export async function bucketNames(link, prefix) {
  const names = await streamNames(link);
  return names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length)).sort();
}

/**
 * The infos of a few buckets, so many requests at once; one that went meanwhile has none.
 *
 * @param {Link} link
 * @param {string} prefix
 * @param {string[]} names
 * @returns {Promise<Map<string, StreamInfo>>}
 */
export async function bucketInfos(link, prefix, names) {
  const found = /** @type {Map<string, StreamInfo>} */ (new Map());
  const waiting = [...names];
  const worker = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      try {
        found.set(name, await streamInfo(link, prefix + name));
      } catch (error) {
        if (!isGone(error)) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  return found;
}

const STREAM_GONE = 10059;

/**
 * True for an error that says that the stream of a bucket is not there.
 * @param {unknown} error
 */
export function isGone(error) {
  return error instanceof Refused && error.errorCode === STREAM_GONE;
}

/**
 * The stream of a bucket. Raises: NoBucket.
 *
 * @param {Link} link
 * @param {string} prefix
 * @param {string} name
 */
export async function bucketInfo(link, prefix, name) {
  try {
    return await streamInfo(link, prefix + name);
  } catch (error) {
    throw isGone(error) ? new NoBucket(name) : error;
  }
}

/**
 * What a person sets of a bucket. Of numbers 0 is no limit; durations are ns.
 * @typedef {{ history?: number, ttl?: number, markerTtl?: number, maxBytes?: number, maxValue?: number, replicas?: number, storage?: string,
 *   compression?: boolean, description?: string }} BucketSettings
 */

/**
 * A stream's configuration with a bucket's settings; what they do not name stays.
 *
 * @param {StreamConfig} config
 * @param {BucketSettings} settings
 * @returns {StreamConfig}
 */
export function withSettings(config, settings) {
  const made = { ...config };
  /** @param {string} name @param {unknown} value @param {unknown} unset what a configuration without it has */
  const set = (name, value, unset) => {
    if (value !== undefined && (config[name] ?? unset) !== value) made[name] = value;
  };
  set("max_msgs_per_subject", settings.history, -1);
  set("max_bytes", settings.maxBytes === undefined ? undefined : settings.maxBytes || -1, -1);
  set("max_msg_size", settings.maxValue === undefined ? undefined : settings.maxValue || -1, -1);
  set("num_replicas", settings.replicas, 1);
  set("storage", settings.storage, "file");
  set("compression", settings.compression === undefined ? undefined : settings.compression ? "s2" : "none", "none");
  set("description", settings.description, "");
  set("max_age", settings.ttl, 0);
  set("subject_delete_marker_ttl", settings.markerTtl, 0);
  // The server wants a window of duplicates that is not longer than the life of values.
  if (made.max_age !== config.max_age) made.duplicate_window = made.max_age ? Math.min(made.max_age, WINDOW) : WINDOW;
  if (settings.markerTtl) made.allow_msg_ttl = true;
  return made;
}

/**
 * Have a bucket never change again.
 * @param {Link} link
 * @param {StreamConfig} config
 */
export function sealBucket(link, config) {
  return updateStream(link, { ...config, sealed: true });
}
