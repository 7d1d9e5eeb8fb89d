/**
 * Blocks that pages are made of: the heading, cards, figures, facts, states in words and shapes, meters, commands to
 * copy. Never here: tables (table.js), dialogs (dialog.js), what stands where nothing is (empty.js).
 */

import { foreign, h, svg } from "../dom/element.js";
import { age, duration, time, utc } from "../format.js";
import { text } from "../text/common.js";
import { icon } from "./icons.js";
import { judged } from "./judged.js";
import { say } from "./toasts.js";

/** @typedef {import("../dom/element.js").Child} Child */

/**
 * The heading of a page; its title is the page's `h1`.
 *
 * @param {Child} title
 * @param {{ sub?: Child, actions?: Child[], crumb?: { href: string, label: string } }} [options]
 */
export function pageHead(title, { sub, actions = [], crumb } = {}) {
  return h(
    "div",
    { class: "page-head" },
    h(
      "div",
      { class: "titles" },
      crumb && h("a", { class: "crumb row", href: crumb.href }, icon("back", 12), foreign(crumb.label)),
      h("h1", {}, title),
      sub && h("p", { class: "sub" }, sub),
    ),
    actions.length > 0 && h("div", { class: "buttons" }, actions),
  );
}

/**
 * A card: a heading, actions beside it, a body. `flush`: the body has no space around it, as tables want.
 *
 * @param {Child} title
 * @param {{ actions?: Child[], flush?: boolean, level?: 2 | 3, class?: string }} options
 * @param {...(Child | Child[])} body
 */
export function card(title, { actions = [], flush = false, level = 2, class: name = "" }, ...body) {
  return h(
    "section",
    { class: `card ${name}`.trim() },
    (title || actions.length > 0) && h("header", {}, h(level === 2 ? "h2" : "h3", {}, title), actions),
    flush ? body.flat() : h("div", { class: "body" }, ...body),
  );
}

/**
 * A figure with its label; `note` says what it is measured against.
 *
 * @param {string} label
 * @param {Child} value
 * @param {{ note?: Child, below?: Child }} [options]
 */
export function figure(label, value, { note, below } = {}) {
  return h(
    "div",
    { class: "figure" },
    h("span", { class: "label" }, label),
    h("span", { class: "value" }, value),
    note && h("span", { class: "note" }, note),
    below,
  );
}

/** @param {...Child} items */
export function figures(...items) {
  return h("div", { class: "figures" }, items);
}

/**
 * Names and values, one beside the other. A value of null or undefined leaves its row out.
 *
 * @param {[string, Child | undefined][]} rows
 */
export function facts(rows) {
  return h(
    "dl",
    { class: "facts" },
    rows.filter(([, value]) => value !== null && value !== undefined).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** @typedef {"good" | "warn" | "bad" | "info" | "idle"} Tone */

const SHAPES = /** @type {Record<Tone, string>} */ ({
  good: "M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1z",
  warn: "M6 1l5.5 10H.5z",
  bad: "M3.5.5h5L11.5 3.5v5l-3 3h-5l-3-3v-5z",
  info: "M1 1h10v10H1z",
  idle: "M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zm0 2a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5z",
});

/**
 * A state: a shape, a colour and a word, of which the word alone would do.
 *
 * @param {Tone} tone
 * @param {Child} word
 */
export function status(tone, word) {
  return h(
    "span",
    { class: `status ${tone}` },
    svg("svg", { viewBox: "0 0 12 12", width: 10, height: 10, "aria-hidden": "true" }, svg("path", { d: SHAPES[tone], fill: "currentColor" })),
    h("span", {}, word),
  );
}

/** @param {Child} word */
export function tag(word) {
  return h("span", { class: "tag" }, word);
}

/**
 * How much of a limit is used; without a limit only the words.
 *
 * @param {number} used
 * @param {number} limit 0 or less: none
 * @param {string} words
 */
export function meter(used, limit, words) {
  if (limit <= 0) return h("span", { class: "nowrap" }, words);
  const share = Math.min(1, used / limit);
  const tone = share >= 0.95 ? "bad" : share >= 0.8 ? "warn" : "";
  const fill = h("span", { class: "fill" });
  fill.style.setProperty("width", `${(share * 100).toFixed(1)}%`);
  return h("span", { class: `meter ${tone}` }, h("span", { class: "track" }, fill), h("span", { class: "nowrap" }, words));
}

/**
 * A moment in local time; UTC where one hovers.
 * @param {string | number | Date | null | undefined} value
 */
export function when(value) {
  const shown = time(value);
  return shown === "–" ? h("span", { class: "muted" }, shown) : h("time", { title: utc(value), class: "nowrap" }, shown);
}

/**
 * How long ago a moment was; the moment itself where one hovers.
 * @param {string | number | Date | null | undefined} value
 */
export function ago(value) {
  const seconds = age(value);
  return seconds === null
    ? h("span", { class: "muted" }, text.never)
    : h("time", { title: `${time(value)} (${utc(value)})`, class: "nowrap" }, text.ago(duration(seconds < 1 ? 0 : Math.floor(seconds))));
}

/**
 * Words between backticks as code.
 * @param {string} words
 */
export function withCode(words) {
  return words.split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part));
}

/**
 * A button that copies a text.
 * @param {string} value
 * @param {string} [label]
 */
export function copyButton(value, label = text.copy) {
  return h(
    "button",
    { class: "button quiet small", type: "button", title: label, "aria-label": label, onclick: () => copy(value) },
    icon("copy", 14),
  );
}

/** @param {string} value */
export async function copy(value) {
  try {
    await navigator.clipboard.writeText(value);
    say(text.copied);
  } catch {
    say(text.notCopied, { tone: "bad" });
  }
}

/**
 * A command for a shell, to be copied.
 * @param {string} command
 */
export function commandLine(command) {
  return h("div", { class: "command" }, h("code", {}, foreign(command)), copyButton(command));
}

/**
 * "The same on the command line", folded.
 * @param {...string} commands
 */
export function onCommandLine(...commands) {
  return h("details", { class: "on-command-line" }, h("summary", { class: "muted" }, text.onCommandLine), h("div", { class: "stack" }, commands.map(commandLine)));
}

/**
 * A word for a shell: as it is where that is safe, else between quotes.
 * @param {string} word
 */
export function shellWord(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * A button.
 *
 * @param {Child} label
 * @param {(event: MouseEvent) => unknown} press
 * @param {{ kind?: string, icon?: import("./icons.js").Icon, disabled?: string | boolean | (() => string | boolean), title?: string }} [options]
 *   `disabled`: the reason, which is shown; a function is asked again when rights change
 */
export function button(label, press, { kind = "", icon: name, disabled = false, title = "" } = {}) {
  const made = h("button", { class: `button ${kind}`.trim(), type: "button", onclick: press }, name && icon(name), label);
  if (typeof disabled === "function") return judged(made, () => grey(made, disabled(), title));
  grey(made, disabled, title);
  return made;
}

/**
 * @param {HTMLButtonElement} made
 * @param {string | boolean} reason
 * @param {string} title where there is no reason
 */
function grey(made, reason, title) {
  made.disabled = Boolean(reason);
  const shown = typeof reason === "string" && reason ? reason : title;
  if (shown) made.title = shown;
  else made.removeAttribute("title");
}

/**
 * A link that looks like a button.
 * @param {Child} label
 * @param {string} href
 * @param {{ kind?: string, icon?: import("./icons.js").Icon }} [options]
 */
export function linkButton(label, href, { kind = "", icon: name } = {}) {
  return h("a", { class: `button ${kind}`.trim(), href }, name && icon(name), label);
}

/**
 * Tabs, which are links: each has its own address.
 *
 * @param {{ href: string, label: string, count?: number | string, current: boolean }[]} items
 */
export function tabs(items) {
  return h(
    "nav",
    { class: "tabs", "aria-label": text.parts },
    items.map((item) =>
      h("a", { href: item.href, "aria-current": item.current ? "page" : null }, item.label, item.count !== undefined && h("span", { class: "count" }, item.count)),
    ),
  );
}

/**
 * One of a few: buttons of which one is pressed.
 *
 * @template {string} T
 * @param {string} label
 * @param {[T, string][]} options
 * @param {T} chosen
 * @param {(value: T) => void} choose
 */
export function choice(label, options, chosen, choose) {
  const box = h("div", { class: "choice", role: "group", "aria-label": label });
  /** @param {T} value */
  const press = (value) => {
    for (const other of box.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other.dataset.value === value));
    choose(value);
  };
  for (const [value, name] of options) {
    box.append(h("button", { type: "button", "data-value": value, "aria-pressed": String(value === chosen), onclick: () => press(value) }, name));
  }
  return box;
}
