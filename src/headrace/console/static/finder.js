/** The search on top: pages, streams, buckets, connections, subjects, and what the frame can do; `/` or Ctrl-K leads here. */

import { to } from "./app.js";
import { foreign, h, replace } from "./dom/element.js";
import { streamNames } from "./nats/jetstream.js";
import { PAGES } from "./pages/index.js";
import { text } from "./text/common.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {{ label: string, kind: string, href?: string, run?: () => void }} Found */
/** @typedef {{ label: string, run: () => void }} Command */

const MOST = 14;
/** Of them so many streams. */
const MOST_STREAMS = 8;
/** Names of streams are asked for again when they are older, in ms. */
const FRESH_MS = 15_000;

export class Finder {
  /**
   * @param {App} app
   * @param {() => Command[]} commands what the frame can do now
   */
  constructor(app, commands) {
    this.#app = app;
    this.#commands = commands;
    this.#input = h("input", {
      type: "search", class: "input", placeholder: `${text.search}  ( / )`, "aria-label": text.search, autocomplete: "off", spellcheck: "false",
      role: "combobox", "aria-expanded": "false", "aria-controls": "found",
    });
    this.#list = h("div", { class: "found", id: "found", role: "listbox", hidden: true });
    this.element = h("div", { class: "finder" }, this.#input, this.#list);
    this.#input.addEventListener("input", () => this.#find());
    this.#input.addEventListener("focus", () => void this.#learn());
    this.#input.addEventListener("keydown", (event) => this.#onKey(event));
    this.element.addEventListener("focusout", (event) => {
      if (!this.element.contains(/** @type {Node | null} */ (event.relatedTarget))) this.#close();
    });
    this.#list.addEventListener("click", () => this.#close());
  }

  /** @type {App} */
  #app;
  /** @type {() => Command[]} */
  #commands;
  /** @type {HTMLInputElement} */
  #input;
  /** @type {HTMLElement} */
  #list;
  /** @type {string[]} */
  #streams = [];
  /** Whose streams these are. @type {import("./nats/link.js").Link | null} */
  #of = null;
  #learntAt = 0;
  #chosen = 0;

  focus() {
    this.#input.focus();
    this.#input.select();
  }

  /** Ask for the names of streams, if the last ones are old. A user without JetStream finds pages and subjects. */
  async #learn() {
    const { account } = this.#app;
    if (account !== this.#of) [this.#of, this.#streams, this.#learntAt] = [account, [], 0];
    if (!account || Date.now() - this.#learntAt < FRESH_MS) return;
    this.#learntAt = Date.now();
    const names = await streamNames(account).catch(() => []);
    if (this.#of !== account) return;
    this.#streams = names;
    if (document.activeElement === this.#input) this.#find();
  }

  #find() {
    const wanted = this.#input.value.trim();
    if (!wanted) return this.#close();
    const found = this.#matches(wanted).slice(0, MOST);
    this.#chosen = 0;
    replace(
      this.#list,
      found.length
        ? found.map((one, place) => h("a", { href: one.href ?? location.hash, onclick: one.run && ((/** @type {Event} */ event) => { event.preventDefault(); one.run?.(); }), id: `found-${place}`, role: "option", tabindex: "-1", "aria-selected": String(place === 0) }, foreign(one.label), h("span", { class: "muted" }, one.kind)))
        : h("div", { class: "empty" }, text.searchNothing),
    );
    this.#list.hidden = false;
    this.#input.setAttribute("aria-expanded", "true");
    this.#tellChosen(found.length > 0);
    return undefined;
  }

  /**
   * @param {string} wanted
   * @returns {Found[]}
   */
  #matches(wanted) {
    const low = wanted.toLowerCase();
    const pages = PAGES.filter((page) => text.page[page.name].toLowerCase().includes(low) && !this.#app.settings.hide.includes(page.name)).map((page) => ({ label: text.page[page.name], kind: text.pages, href: to(page.name) }));
    const streams = this.#streams.filter((name) => name.toLowerCase().includes(low)).map(foundStream);
    const commands = this.#commands().filter((one) => one.label.toLowerCase().includes(low)).map((one) => ({ ...one, kind: text.command }));
    const connections = { label: text.connectionsWith(wanted), kind: text.page.connections, href: to("connections", [], { find: wanted }) };
    const subject = /\s/.test(wanted) ? [] : [{ label: wanted, kind: text.page.live, href: to("live", [], { subject: wanted }) }];
    return [...pages, ...commands, ...streams.slice(0, MOST_STREAMS), ...(this.#app.any ? [connections] : []), ...subject];
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const links = [...this.#list.querySelectorAll("a")];
    if (event.key === "Escape") {
      this.#close();
      this.#input.blur();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.#chosen = (this.#chosen + (event.key === "ArrowDown" ? 1 : -1) + links.length) % Math.max(1, links.length);
      links.forEach((link, place) => link.setAttribute("aria-selected", String(place === this.#chosen)));
      links[this.#chosen]?.scrollIntoView({ block: "nearest" });
      this.#tellChosen(links.length > 0);
    } else if (event.key === "Enter" && links[this.#chosen]) {
      links[this.#chosen].click();
      this.#input.value = "";
      this.#close();
      this.#input.blur();
    }
  }

  /** Tell a screen reader which one Enter would open: the focus stays in the field. @param {boolean} isAny */
  #tellChosen(isAny) {
    if (isAny) this.#input.setAttribute("aria-activedescendant", `found-${this.#chosen}`);
    else this.#input.removeAttribute("aria-activedescendant");
  }

  #close() {
    this.#tellChosen(false);
    this.#list.hidden = true;
    this.#input.setAttribute("aria-expanded", "false");
  }
}

/**
 * A stream, or the bucket that it is.
 * @param {string} name
 * @returns {Found}
 */
function foundStream(name) {
  if (name.startsWith("KV_")) return { label: name.slice(3), kind: text.page.keyvalue, href: to("keyvalue", [name.slice(3)]) };
  if (name.startsWith("OBJ_")) return { label: name.slice(4), kind: text.page.objects, href: to("objects", [name.slice(4)]) };
  return { label: name, kind: text.page.streams, href: to("streams", [name]) };
}
