/**
 * The schemas in a stream's metadata (docs/schemas.md), and a check of JSON payloads by the keywords that are read
 * here. The server's check is the one that counts; what is not read here is said to be unchecked.
 */

import { covers } from "../nats/subjects.js";
import { decode } from "../ui/payload.js";

/** @typedef {{ filter: string, type: string, text: string, message: string }} SubjectSchema */
/** @typedef {{ schemas: SubjectSchema[], isChecked: boolean }} StreamSchemas */
/** @typedef {{ fits: boolean | null, why: string }} Verdict fits null: it was not judged, and why */

const KEY = /^headrace\.schema(\.type|\.message|\.earlier)?(?:@(.+))?$/;
const CHECK = "headrace.schema.check";
/** Larger payloads are not judged here: the page would stand still. */
const LARGEST = 1_048_576;

/**
 * @param {Record<string, string> | undefined} metadata
 * @returns {StreamSchemas}
 */
export function schemasOf(metadata = {}) {
  /** @type {Map<string, SubjectSchema>} */
  const found = new Map();
  for (const [key, value] of Object.entries(metadata)) {
    const [, part = "", filter = ""] = KEY.exec(key) ?? [];
    if (!KEY.test(key)) continue;
    const one = found.get(filter) ?? { filter, type: "", text: "", message: "" };
    found.set(filter, one);
    if (part === "") one.text = value;
    else if (part === ".type") one.type = value;
    else if (part === ".message") one.message = value;
  }
  const schemas = [...found.values()].filter((one) => one.text && one.type);
  schemas.sort((a, b) => Number(!a.filter) - Number(!b.filter));
  return { schemas, isChecked: metadata[CHECK] === "true" };
}

/**
 * The schema that is for a subject, or null.
 * @param {StreamSchemas} known
 * @param {string} subject
 */
export function schemaFor({ schemas }, subject) {
  return schemas.find((one) => one.filter === "" || covers(one.filter, subject)) ?? null;
}

/**
 * How a payload with this schema is best looked at.
 * @param {SubjectSchema | null} schema
 * @returns {"json" | "hex" | undefined}
 */
export function formOf(schema) {
  if (!schema) return undefined;
  return schema.type === "json" ? "json" : "hex";
}

/**
 * Judge a payload by a schema.
 * @param {SubjectSchema} schema
 * @param {Uint8Array} data
 * @returns {Verdict}
 */
export function judge(schema, data) {
  if (schema.type !== "json") return { fits: null, why: schema.type };
  if (data.length > LARGEST) return { fits: null, why: "> 1 MiB" };
  /** @type {any} */
  let rules;
  try {
    rules = JSON.parse(schema.text);
  } catch (error) {
    return { fits: null, why: String(/** @type {Error} */ (error).message) };
  }
  /** @type {unknown} */
  let value;
  try {
    value = JSON.parse(decode(data));
  } catch (error) {
    return { fits: false, why: String(/** @type {Error} */ (error).message) };
  }
  const unread = new Set(/** @type {string[]} */ ([]));
  let why = "";
  try {
    why = wrong(value, rules, "data", unread);
  } catch (error) {
    return { fits: null, why: String(/** @type {Error} */ (error).message) }; // a schema that is none, or very deep
  }
  if (why) return { fits: false, why };
  return unread.size ? { fits: null, why: [...unread].join(", ") } : { fits: true, why: "" };
}

/** Keywords that say nothing about what fits. */
const WORDS = new Set(["$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "$defs", "definitions"]);

/** The checks of the keywords that are read: what is wrong, or "". @type {Record<string, (value: any, rule: any, path: string, rules: any, unread: Set<string>) => string>} */
const CHECKS = {
  type: (value, rule, path) => ([rule].flat().some((type) => isOf(value, type)) ? "" : `${path} must be ${[rule].flat().join(" or ")}`),
  enum: (value, rule, path) => (rule.some((/** @type {unknown} */ one) => same(one, value)) ? "" : `${path} must be one of ${JSON.stringify(rule)}`),
  const: (value, rule, path) => (same(value, rule) ? "" : `${path} must be ${JSON.stringify(rule)}`),
  required: (value, rule, path) => (isObject(value) ? first(rule, (/** @type {string} */ name) => (Object.hasOwn(value, name) ? "" : `${path} must have ${name}`)) : ""),
  properties: (value, rule, path, _rules, unread) =>
    isObject(value) ? first(Object.keys(rule), (name) => (Object.hasOwn(value, name) ? wrong(value[name], rule[name], `${path}.${name}`, unread) : "")) : "",
  additionalProperties: (value, rule, path, rules, unread) =>
    isObject(value)
      ? first(Object.keys(value).filter((name) => !Object.hasOwn(rules.properties ?? {}, name)), (name) => (rule === false ? `${path} must not have ${name}` : wrong(value[name], rule, `${path}.${name}`, unread)))
      : "",
  items: (value, rule, path, _rules, unread) => (Array.isArray(value) && !Array.isArray(rule) ? first(value, (one, place) => wrong(one, rule, `${path}[${place}]`, unread)) : ""),
  minItems: (value, rule, path) => (Array.isArray(value) && value.length < rule ? `${path} must have at least ${rule} items` : ""),
  maxItems: (value, rule, path) => (Array.isArray(value) && value.length > rule ? `${path} must have at most ${rule} items` : ""),
  minLength: (value, rule, path) => (typeof value === "string" && [...value].length < rule ? `${path} must have at least ${rule} letters` : ""),
  maxLength: (value, rule, path) => (typeof value === "string" && [...value].length > rule ? `${path} must have at most ${rule} letters` : ""),
  minimum: (value, rule, path) => (typeof value === "number" && value < rule ? `${path} must be at least ${rule}` : ""),
  maximum: (value, rule, path) => (typeof value === "number" && value > rule ? `${path} must be at most ${rule}` : ""),
  exclusiveMinimum: (value, rule, path) => (typeof value === "number" && value <= rule ? `${path} must be above ${rule}` : ""),
  exclusiveMaximum: (value, rule, path) => (typeof value === "number" && value >= rule ? `${path} must be below ${rule}` : ""),
};

/**
 * The first thing that is wrong with a value, or "". Keywords that are not read are put into `unread`.
 *
 * @param {any} value
 * @param {any} rules
 * @param {string} path
 * @param {Set<string>} unread
 * @returns {string}
 */
function wrong(value, rules, path, unread) {
  if (rules === true) return "";
  if (rules === false) return `${path} must not be there`;
  if (!isObject(rules)) return "";
  for (const [keyword, rule] of Object.entries(rules)) {
    if (WORDS.has(keyword)) continue;
    if (!Object.hasOwn(CHECKS, keyword)) {
      unread.add(keyword);
      continue;
    }
    const why = CHECKS[keyword](value, rule, path, rules, unread);
    if (why) return why;
  }
  return "";
}

/**
 * @param {any} value
 * @param {string} type
 */
function isOf(value, type) {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "integer") return Number.isInteger(value);
  return typeof value === type;
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** @param {unknown} a @param {unknown} b */
function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

/**
 * @template T
 * @param {T[]} all
 * @param {(one: T, place: number) => string} check
 */
function first(all, check) {
  for (const [place, one] of all.entries()) {
    const why = check(one, place);
    if (why) return why;
  }
  return "";
}
