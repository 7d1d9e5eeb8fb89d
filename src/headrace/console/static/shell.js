/**
 * The frame of all pages: the bar, the line on top, the login where there is none, the page that the address names.
 * Never here: data of a page.
 */

import { Address, to } from "./app.js";
import { oldest, pause } from "./data/poll.js";
import { h, replace, visible } from "./dom/element.js";
import { duration } from "./format.js";
import { LoginForm } from "./login.js";
import { PAGES } from "./pages/index.js";
import { setTheme, theme } from "./preferences.js";
import { text } from "./text/common.js";
import { text as loginText } from "./text/login.js";
import { explained } from "./text/problems.js";
import { button, linkButton, pageHead, status } from "./ui/blocks.js";
import { openDialog } from "./ui/dialog.js";
import { empty, failure } from "./ui/empty.js";
import { Finder } from "./finder.js";
import { icon } from "./ui/icons.js";
import { judgeAgain } from "./ui/judged.js";
import { menu } from "./ui/menu.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./nats/link.js").Link} Link */

/** After `g` the letter of a page is waited for so long, in ms. */
const GO_MS = 2_000;
const THEMES = /** @type {const} */ (["system", "light", "dark"]);

export class Shell {
  /**
   * @param {HTMLElement} root
   * @param {App} app
   * @param {string} [note] what the form of the first login says
   */
  constructor(root, app, note = "") {
    this.#app = app;
    this.#note = note;
    this.#root = root;
    this.#middle = h("main", { class: "middle", id: "page", tabindex: "-1" });
    this.#side = h("aside", { class: "side" });
    this.#banner = h("div", { hidden: true }, this.#said, this.#since, this.#bannerActions);
    this.#who = h("div", { class: "top-who" });
    this.#finder = new Finder(app, () => this.#commands());
    replace(root, h("a", { class: "skip", href: "#page", onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.#middle.focus(); } }, text.skip), this.#side, this.#top(), this.#middle);
    window.addEventListener("hashchange", () => {
      void this.#show();
      this.#keepFocus();
    });
    app.addEventListener("links", () => this.#onLinks());
    app.addEventListener("rights", () => {
      this.#drawWho();
      judgeAgain();
    });
    pause.addEventListener("change", () => this.#drawWho());
    document.addEventListener("keydown", (event) => this.#onKey(event));
    setInterval(() => this.#tick(), 1_000);
    for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, () => { this.#touched = Date.now(); }, { passive: true });
    this.#onLinks();
    void this.#show();
  }

  /** @type {App} */
  #app;
  /** @type {HTMLElement} */
  #root;
  /** @type {HTMLElement} */
  #middle;
  /** @type {HTMLElement} */
  #side;
  /** @type {HTMLElement} */
  #banner;
  /** What a screen reader says of it: once, not with each second that passes. */
  #said = h("span", { role: "status" });
  #since = h("span");
  #bannerActions = h("span", { class: "row" });
  /** @type {HTMLElement} */
  #who;
  /** @type {Finder} */
  #finder;
  /** @type {AbortController} */
  #leave = new AbortController();
  #shownLinks = "";
  #touched = Date.now();
  #lostAt = 0;
  #note = "";
  /** When `g` was pressed, in ms. */
  #goAt = 0;

  // -- the page ------------------------------------------------------------------------------------

  async #show() {
    this.#leave.abort();
    const leave = (this.#leave = new AbortController());
    const address = Address.read(location.hash);
    this.#side.classList.remove("is-open");
    this.#drawSide(address.page);
    const entry = PAGES.find((page) => page.name === address.page && !this.#app.settings.hide.includes(page.name));
    document.title = `${entry ? text.page[entry.name] : text.title} · ${this.#name}`;
    if (!this.#app.any) return this.#login(this.#app.settings.system ? "operator" : "account");
    if (!entry) return replace(this.#middle, empty(text.unknownPage, linkButton(text.toOverview, to("overview"))));
    if (entry.needs !== "either" && !this.#app[entry.needs]) return this.#login(entry.needs);
    const host = h("div", { class: "stack", "data-page": entry.name });
    replace(this.#middle, this.#banner, host);
    try {
      const page = await entry.load();
      if (leave.signal.aborted) return undefined;
      await page.show({ host, path: address.path, query: address.query, app: this.#app, signal: leave.signal, go: (href) => { location.hash = href; } });
    } catch (error) {
      if (!leave.signal.aborted) replace(host, pageHead(text.page[entry.name]), failure(error, button(text.retry, () => void this.#show())));
    }
    return undefined;
  }

  /** @param {"account" | "operator"} role */
  #login(role) {
    const form = new LoginForm(this.#app, role, { note: this.#note, done: () => { this.#note = ""; } });
    replace(this.#middle, this.#banner, form.element);
    form.focus();
  }

  /** After a link to another page the focus is on that page, not lost with what was drawn anew. */
  #keepFocus() {
    const focused = document.activeElement;
    if (!focused || focused === document.body || this.#side.contains(focused)) this.#middle.focus({ preventScroll: true });
  }

  /** Another login is another set of pages; a changed state is only told. */
  #onLinks() {
    const links = [this.#app.account, this.#app.operator].map((link) => (link ? `${link.who.account}/${link.who.user}` : "-")).join(" ");
    this.#drawWho();
    this.#tick();
    if (links !== this.#shownLinks) {
      this.#shownLinks = links;
      void this.#show();
    } else this.#drawSide(Address.read(location.hash).page);
  }

  // -- the bar -------------------------------------------------------------------------------------

  get #name() {
    const server = this.#app.any?.server;
    return server?.cluster ?? server?.server_name ?? this.#app.settings.server_name ?? "NATS";
  }

  /** @param {string} current */
  #drawSide(current) {
    const link = this.#app.any;
    const product = link ? (link.headrace ? `Headrace ${link.headrace}` : `nats-server ${link.server.version}`) : "";
    const sections = /** @type {const} */ (["watch", "data", "servers"]);
    const places = () => /** @type {HTMLElement[]} */ ([...this.#side.querySelectorAll("a, button")]);
    const focused = places().indexOf(/** @type {HTMLElement} */ (document.activeElement));
    replace(
      this.#side,
      h("div", { class: "side-head" }, h("img", { src: "favicon.svg", alt: "" }), h("span", { class: "side-name", title: this.#name }, this.#name), h("span", { class: "side-version" }, product)),
      h("div", { class: "side-state" }, link ? linkState(link) : status("idle", text.closed)),
      h("nav", { "aria-label": text.pages }, sections.flatMap((section) => [h("h2", {}, text.sections[section]), ...this.#links(section, current)])),
      h("div", { class: "side-foot" }, h("button", { class: "button quiet small", type: "button", onclick: () => this.#keys() }, h("kbd", {}, "?"), text.keys)),
    );
    places()[focused]?.focus({ preventScroll: true });
  }

  /**
   * @param {string} section
   * @param {string} current
   */
  #links(section, current) {
    return PAGES.filter((page) => page.section === section && !this.#app.settings.hide.includes(page.name)).map((page) => {
      const isLocked = this.#app.any !== null && page.needs !== "either" && !this.#app[page.needs];
      return h(
        "a",
        { href: to(page.name), "aria-current": page.name === current ? "page" : null },
        icon(page.icon),
        h("span", {}, text.page[page.name]),
        isLocked && h("span", { class: "count", title: page.needs === "operator" ? text.operatorLogin : text.accountLogin }, icon("lock", 12)),
      );
    });
  }

  // -- the line on top -----------------------------------------------------------------------------

  #top() {
    return h(
      "header",
      { class: "top" },
      h("button", { class: "button quiet square top-menu", type: "button", "aria-label": text.menu, onclick: () => this.#side.classList.toggle("is-open") }, icon("menu")),
      h("div", { class: "top-search" }, this.#finder.element),
      this.#who,
    );
  }

  #drawWho() {
    const chosen = theme();
    replace(
      this.#who,
      this.#app.account && whoIs(this.#app.account, this.#app.isReadOnly),
      this.#app.operator && whoIs(this.#app.operator, this.#app.isReadOnly),
      this.#app.any &&
        menu(text.account, () => [
          ...this.#signings("account", text.account, text.accountLogin),
          ...this.#signings("operator", text.operator, text.operatorLogin),
          h("button", { type: "button", onclick: () => void showOwnActions() }, text.ownActions),
        ], { icon: "accounts", bare: true, kind: "quiet square" }),
      h("button", { class: "button quiet square", type: "button", "aria-pressed": String(pause.isOn), title: pause.isOn ? text.resume : text.pause, "aria-label": pause.isOn ? text.resume : text.pause, onclick: () => pause.set(!pause.isOn) }, icon(pause.isOn ? "play" : "pause")),
      h("button", { class: "button quiet square", type: "button", title: text.theme[chosen], "aria-label": text.theme[chosen], onclick: () => this.#setTheme(THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]) }, icon(chosen)),
    );
  }

  /**
   * @param {"account" | "operator"} role
   * @param {string} name
   * @param {string} login
   */
  #signings(role, name, login) {
    const link = this.#app[role];
    return link
      ? [h("button", { type: "button", onclick: () => void this.#app.signOut(role) }, `${text.signOut}: ${name} ${link.who.user}`)]
      : [h("button", { type: "button", onclick: () => this.#login(role) }, login)];
  }

  /** What can be done from everywhere, by the search on top. @returns {import("./finder.js").Command[]} */
  #commands() {
    const { account, operator } = this.#app;
    return [
      { label: pause.isOn ? text.resume : text.pause, run: () => pause.set(!pause.isOn) },
      ...THEMES.map((one) => ({ label: text.theme[one], run: () => this.#setTheme(one) })),
      { label: text.keys, run: () => this.#keys() },
      { label: text.ownActions, run: () => void showOwnActions() },
      ...(account ? [] : [{ label: text.accountLogin, run: () => this.#login("account") }]),
      ...(operator ? [] : [{ label: text.operatorLogin, run: () => this.#login("operator") }]),
      ...[account, operator].flatMap((link) => (link ? [{ label: `${text.signOut}: ${text[link.role]} ${link.who.user}`, run: () => void this.#app.signOut(link.role) }] : [])),
    ];
  }

  /** @param {typeof THEMES[number]} chosen */
  #setTheme(chosen) {
    setTheme(chosen);
    this.#drawWho();
  }

  // -- states of the connections -------------------------------------------------------------------

  #tick() {
    const link = [this.#app.account, this.#app.operator].find((one) => one && one.state !== "connected");
    this.#root.classList.toggle("is-stale", Boolean(link));
    if (!link) this.#lostAt = 0;
    else if (!this.#lostAt) this.#lostAt = Date.now();
    this.#drawBanner(link ?? null);
    const idle = (Date.now() - this.#touched) / 1_000;
    const { idle_lock: allowed } = this.#app.settings; // 0: for ever
    if (this.#app.any && allowed > 0 && idle > allowed) {
      this.#note = loginText.locked(duration(allowed));
      void this.#app.signOut("account");
      void this.#app.signOut("operator");
    }
  }

  /** @param {Link | null} link */
  #drawBanner(link) {
    const isReconnecting = link?.state === "reconnecting";
    const old = link || pause.isOn ? null : oldest();
    if (isReconnecting) this.#since.textContent = text.lostSince(shownAge(this.#lostAt), Math.max(0, Math.ceil((link.retryAt - Date.now()) / 1_000)));
    else this.#since.textContent = old ? text.oldSince(shownAge(old.since)) : "";
    const shown = isReconnecting ? text.lost : link ? text.ended(link.reason) : pause.isOn ? text.paused : old ? whyOld(old.error) : "";
    if (this.#said.textContent === shown) return;
    this.#banner.hidden = !shown;
    this.#banner.className = `banner ${link?.state === "closed" ? "bad" : ""}`;
    this.#said.textContent = shown;
    replace(
      this.#bannerActions,
      link?.state === "closed" && button(text.signInAgain, () => void this.#app.signOut(link.role).then(() => this.#login(link.role))),
      !link && pause.isOn && button(text.resume, () => pause.set(false), { kind: "small" }),
    );
  }

  // -- keys ----------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      this.#finder.focus();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    if (Date.now() - this.#goAt < GO_MS) {
      this.#goAt = 0;
      const page = /** @type {Record<string, string>} */ ({ o: "overview", l: "live", s: "streams", k: "keyvalue", c: "connections", a: "alerts" })[event.key];
      if (page) location.hash = to(page);
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      this.#finder.focus();
    } else if (event.key === "?") this.#keys();
    else if (event.key === "p") pause.set(!pause.isOn);
    else if (event.key === "g") this.#goAt = Date.now();
  }

  #keys() {
    openDialog(text.keys, {}, h("dl", { class: "facts" }, text.keyHelp.flatMap(([keys, what]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)])));
  }
}

/**
 * Why something of the page could not be refreshed.
 * @param {unknown} error
 */
function whyOld(error) {
  const { title, detail } = explained(error);
  return visible([title, detail].filter(Boolean).join(" "));
}

/** @param {number} since ms since 1970 */
function shownAge(since) {
  return duration(Math.floor((Date.now() - since) / 1_000));
}

/** The list of what this tab did is loaded when it is asked for. */
async function showOwnActions() {
  const { openOwnActions } = await import("./ui/own_actions.js");
  openOwnActions();
}

/** @param {Link} link */
function linkState(link) {
  if (link.state === "connected") return status("good", text.connected);
  return link.state === "reconnecting" ? status("warn", text.reconnecting) : status("bad", text.closed);
}

/**
 * Who somebody is, in which account, and what they may do there.
 * @param {Link} link
 * @param {boolean} isReadOnly
 */
function whoIs(link, isReadOnly) {
  const { publish, subscribe } = link.who.permissions ?? {};
  const rights = isReadOnly ? text.rights.readOnly : publish || subscribe ? text.rights.limited : text.rights.full;
  const user = link.who.user || (link.role === "operator" ? text.operator : "–");
  return h(
    "div",
    { class: "who" },
    h("strong", { title: user }, link.role === "operator" ? `${text.operator}: ${user}` : user),
    h("span", { class: "muted" }, link.role === "operator" ? (link.who.account || "$SYS") : link.who.account ? `${text.inAccount(link.who.account)} · ${rights}` : text.rights.unknown),
  );
}
