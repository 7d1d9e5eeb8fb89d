/** What a person may type into the forms of streams and consumers, and what is wrong with it. */

import { readBytes, readDurationNs } from "../../format.js";
import { isSubject } from "../../nats/subjects.js";
import { text } from "../../text/stream_forms.js";

/** @param {string} typed */
export function wrongName(typed) {
  return /^[^\s.*>/\\\u0000-\u001f\u007f]{1,255}$/u.test(typed.trim()) ? "" : text.nameWrong;
}

/** Subjects, one a line or with commas. @param {string} typed */
export function subjectsOf(typed) {
  return typed.split(/[\n,]/).map((one) => one.trim()).filter(Boolean);
}

/** @param {string} typed */
export function wrongSubjects(typed) {
  const wrong = subjectsOf(typed).find((subject) => !isSubject(subject));
  return wrong === undefined ? "" : text.subjectsWrong(wrong);
}

/** @param {string} typed */
export function wrongDuration(typed) {
  return !typed.trim() || typed.trim() === "0" || readDurationNs(typed) !== null ? "" : text.wrongDuration;
}

/** @param {string} typed */
export function wrongSize(typed) {
  return !typed.trim() || readBytes(typed) !== null ? "" : text.wrongSize;
}

/** @param {string} typed */
export function wrongCount(typed) {
  return !typed.trim() || /^\d{1,15}$/.test(typed.trim()) ? "" : text.wrongCount;
}

/** @param {string} typed @param {number} none what an empty field means */
export function durationOf(typed, none = 0) {
  return typed.trim() ? (readDurationNs(typed) ?? 0) : none;
}

/** @param {string} typed @param {number} [none] */
export function sizeOf(typed, none = -1) {
  return typed.trim() ? (readBytes(typed) ?? none) : none;
}

/** @param {string} typed @param {number} [none] */
export function countOf(typed, none = -1) {
  return typed.trim() ? Number(typed.trim()) : none;
}

const UNITS = /** @type {[string, number][]} */ ([["d", 86_400e9], ["h", 3_600e9], ["m", 60e9], ["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]]);

/** Nanoseconds as a person would type them, exactly; "" for none. @param {number | undefined} ns */
export function typedDuration(ns) {
  if (!ns || ns < 0) return "";
  const [unit, size] = UNITS.find(([, size]) => ns % size === 0) ?? ["ns", 1];
  return `${ns / size}${unit}`;
}

/** Bytes as a person would type them, exactly; "" for no limit. @param {number | undefined} value */
export function typedSize(value) {
  if (value === undefined || value < 0) return "";
  for (const [unit, size] of /** @type {[string, number][]} */ ([["TB", 1024 ** 4], ["GB", 1024 ** 3], ["MB", 1024 ** 2], ["KB", 1024]])) {
    if (value && value % size === 0) return `${value / size}${unit}`;
  }
  return String(value);
}

/** @param {number | undefined} value */
export function typedCount(value) {
  return value === undefined || value < 0 ? "" : String(value);
}

/**
 * An object of JSON that a person typed, or what is wrong with it.
 * @param {string} typed
 * @returns {{ value: Record<string, any>, problem: string }}
 */
export function jsonObject(typed) {
  if (!typed.trim()) return { value: {}, problem: "" };
  try {
    const value = JSON.parse(typed);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return { value, problem: "" };
    return { value: {}, problem: text.restWrong("{ … }") };
  } catch (error) {
    return { value: {}, problem: text.restWrong(String(/** @type {Error} */ (error).message)) };
  }
}
