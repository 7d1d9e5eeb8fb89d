/**
 * Signing in: what a person has, as a form. Everything stays in memory but where they ask to keep it for this tab.
 */

import { h, replace } from "./dom/element.js";
import { LARGEST_CREDS, isCreds, isRefusal, isUserSeed } from "./nats/credentials.js";
import { text } from "./text/login.js";
import { explained } from "./text/problems.js";
import { checkbox, field, input, select, textarea } from "./ui/fields.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./nats/link.js").Login} Login */
/** @typedef {import("./nats/link.js").Role} Role */

/** After a refusal the next attempt waits 1, 2, 4, … seconds, so that nobody guesses quickly here. */
const LONGEST_WAIT_S = 32;
/** Of this tab, whatever form was filled in: how many refusals there were in a row, and until when the next attempt waits, in ms. */
const guard = { refusals: 0, until: 0 };

export class LoginForm {
  /**
   * @param {App} app
   * @param {Role} role
   * @param {{ note?: string, done?: () => void }} [options]
   */
  constructor(app, role, { note = "", done } = {}) {
    this.#app = app;
    this.#role = role;
    this.#done = done;
    const kinds = Object.entries(text.kinds);
    this.#kind = select(/** @type {[string, string][]} */ (kinds), { onchange: () => this.#drawFields() });
    this.#fields = h("div", { class: "form" });
    this.#problem = h("div", { class: "problem", role: "alert", hidden: true });
    this.#go = h("button", { class: "button main", type: "submit" }, text.go);
    this.#keep = checkbox(text.keep, { hint: text.keepHint });
    this.element = h(
      "div",
      { class: "login" },
      h("div", { class: "brand" }, h("img", { src: "favicon.svg", alt: "" }), h("div", {}, h("h1", {}, role === "operator" ? text.operator : text.account), h("p", { class: "muted" }, app.socket.replace(/^wss?:\/\//, "")))),
      note && h("p", { class: "hint-box" }, note),
      h(
        "form",
        { class: "form card", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void this.#submit(); } },
        h(
          "div",
          { class: "body form" },
          h("p", { class: "muted" }, role === "operator" ? text.operatorHint : text.accountHint),
          field(text.how, this.#kind).element,
          this.#fields,
          this.#keep.element,
          this.#problem,
          location.protocol === "http:" && !isLoopback() && h("p", { class: "status warn" }, text.insecure),
          h("div", { class: "buttons" }, this.#go),
        ),
      ),
      !app.any && h("p", { class: "muted small" }, text.both),
    );
    this.#drawFields();
    void this.#wait();
  }

  /** @type {App} */
  #app;
  /** @type {Role} */
  #role;
  /** @type {(() => void) | undefined} */
  #done;
  /** @type {HTMLSelectElement} */
  #kind;
  /** @type {HTMLElement} */
  #fields;
  /** @type {HTMLElement} */
  #problem;
  /** @type {HTMLButtonElement} */
  #go;
  /** @type {ReturnType<typeof checkbox>} */
  #keep;
  /** @type {() => Login | null} null: a field is wrong, and says so */
  #read = () => null;

  focus() {
    /** @type {HTMLElement | null} */ (this.#fields.querySelector("input, textarea"))?.focus();
  }

  #drawFields() {
    const needed = (/** @type {string} */ value) => (value ? "" : text.required);
    /** @type {Record<string, () => [HTMLElement[], () => Login | null]>} */
    const kinds = {
      password: () => {
        const user = field(text.user, input({ name: "user", autocomplete: "username" }), { check: needed });
        const password = field(text.password, input({ name: "password", type: "password", autocomplete: "current-password" }));
        return [[user.element, password.element], () => (user.isRight() ? { kind: "password", user: user.value(), password: password.value() } : null)];
      },
      token: () => {
        const token = field(text.token, input({ name: "token", type: "password" }), { check: needed });
        return [[token.element], () => (token.isRight() ? { kind: "token", token: token.value() } : null)];
      },
      nkey: () => {
        const seed = seedField();
        return [[seed.element], () => (seed.isRight() ? { kind: "nkey", seed: seed.value().trim() } : null)];
      },
      jwt: () => {
        const jwt = field(text.jwt, textarea({ name: "jwt", class: "mono" }), { check: needed });
        const seed = seedField();
        return [[jwt.element, seed.element], () => (jwt.isRight() && seed.isRight() ? { kind: "jwt", jwt: jwt.value().trim(), seed: seed.value().trim() } : null)];
      },
      creds: () => this.#credsField(),
      none: () => [[], () => ({ kind: "none" })],
    };
    const [elements, read] = kinds[this.#kind.value]();
    replace(this.#fields, elements);
    this.#read = read;
    this.#problem.hidden = true;
  }

  /** @returns {[HTMLElement[], () => Login | null]} */
  #credsField() {
    let found = "";
    const said = h("p", { class: "small", role: "status" });
    const chooser = h("input", { type: "file", class: "hidden-visually", accept: ".creds,.txt", id: "creds-file" });
    const drop = h("div", { class: "drop" }, h("p", {}, text.creds), h("label", { class: "button", for: "creds-file" }, text.choose), chooser, said);
    /** @param {File | undefined | null} file */
    const take = async (file) => {
      if (!file) return;
      const content = file.size > LARGEST_CREDS ? "" : await file.text();
      found = isCreds(content) ? content : "";
      said.textContent = found ? text.credsRight(file.name) : text.credsWrong;
    };
    chooser.addEventListener("change", () => void take(chooser.files?.[0]));
    drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("is-over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("is-over"));
    drop.addEventListener("drop", (event) => { event.preventDefault(); drop.classList.remove("is-over"); void take(event.dataTransfer?.files[0]); });
    return [[drop], () => {
      if (found) return { kind: "creds", text: found };
      said.textContent = text.credsWrong;
      return null;
    }];
  }

  async #submit() {
    const login = this.#read();
    if (!login || this.#go.disabled) return;
    this.#go.disabled = true;
    this.#problem.hidden = true;
    try {
      await this.#app.signIn(login, this.#role, { keep: this.#keep.control.checked });
      guard.refusals = 0;
      this.#done?.();
    } catch (error) {
      this.#complain(error);
    }
    await this.#wait();
  }

  /** @param {unknown} error */
  #complain(error) {
    const name = error instanceof Error ? error.name : "";
    const message = error instanceof Error ? error.message : String(error);
    const isRefused = isRefusal(error);
    const isAway = name === "ConnectionError" || name === "TimeoutError" || /connection refused|websocket/i.test(message);
    const { title, detail } = explained(error);
    this.#problem.textContent = isRefused ? text.wrong : isAway ? text.unreachable(this.#app.socket) : [title, detail].filter(Boolean).join(" ");
    this.#problem.hidden = false;
    if (!isRefused) return;
    guard.until = Date.now() + Math.min(2 ** guard.refusals, LONGEST_WAIT_S) * 1_000;
    guard.refusals += 1;
  }

  async #wait() {
    for (let left = guard.until - Date.now(); left > 0; left = guard.until - Date.now()) {
      this.#go.disabled = true;
      this.#go.textContent = text.wait(Math.ceil(left / 1_000));
      await new Promise((resolve) => setTimeout(resolve, Math.min(left, 1_000)));
    }
    this.#go.disabled = false;
    this.#go.textContent = text.go;
  }
}

function seedField() {
  return field(text.seed, input({ name: "seed", type: "password", class: "mono" }), {
    hint: text.seedHint,
    check: (value) => (isUserSeed(value) ? "" : text.seedWrong),
  });
}

function isLoopback() {
  return ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
}
