/**
 * Dialogs: a form, a question, the panel of details at the side, and what asks before something is lost.
 * A dialog closes by Escape; the focus then is where it was.
 */

import { foreign, h, visible } from "../dom/element.js";
import { text } from "../text/common.js";
import { explained } from "../text/problems.js";
import { button, withCode } from "./blocks.js";
import { field, input } from "./fields.js";
import { icon } from "./icons.js";
import { say, undoable } from "./toasts.js";

/** @typedef {import("../dom/element.js").Child} Child */

let made = 0;

/**
 * Open a dialog with a heading; it is gone when it is closed. It does not open on a page that was left already.
 *
 * @param {Child} title
 * @param {{ class?: string, closed?: () => void, signal?: AbortSignal }} options
 * @param {...(Child | Child[])} body
 */
export function openDialog(title, { class: name = "", closed, signal }, ...body) {
  made += 1;
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    { class: name, "aria-labelledby": `dialog-${made}` },
    h(
      "div",
      { class: "inner" },
      h("header", {}, h("h2", { id: `dialog-${made}` }, typeof title === "string" ? visible(title) : title), h("button", { class: "button quiet square", type: "button", "aria-label": text.close, onclick: () => dialog.close() }, icon("close"))),
      ...body,
    ),
  );
  const leave = () => dialog.close();
  dialog.addEventListener("close", () => {
    signal?.removeEventListener("abort", leave);
    dialog.remove();
    closed?.();
  });
  closeBeside(dialog);
  if (signal?.aborted) return dialog;
  signal?.addEventListener("abort", leave);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Close a dialog by a click beside it: one that began there, too, for whoever selects a text may end beside it.
 * @param {HTMLDialogElement} dialog
 */
function closeBeside(dialog) {
  let beganBeside = false;
  dialog.addEventListener("pointerdown", (event) => { beganBeside = event.target === dialog; });
  dialog.addEventListener("click", (event) => {
    if (beganBeside && event.target === dialog) dialog.close();
  });
}

/**
 * The panel at the side, for the details of one of many.
 *
 * @param {Child} title
 * @param {{ closed?: () => void, signal?: AbortSignal }} options
 * @param {...(Child | Child[])} body
 */
export function openPanel(title, options, ...body) {
  return openDialog(title, { ...options, class: "panel" }, ...body);
}

/**
 * A form in a dialog. `run` does what it is for; what it raises is shown in the dialog, which stays.
 *
 * @param {string} title
 * @param {{ fields: Child[], verb: string, run: () => Promise<unknown>, kind?: string, wide?: boolean, isRight?: () => boolean, note?: Child, signal?: AbortSignal }} options
 */
export function openForm(title, { fields, verb, run, kind = "main", wide = false, isRight = () => true, note, signal }) {
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const go = h("button", { class: `button ${kind}`, type: "submit" }, verb);
  const form = h(
    "form",
    {
      class: "form",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        if (!isRight()) return;
        go.disabled = true;
        problem.hidden = true;
        try {
          await run();
          dialog.close();
        } catch (error) {
          showProblem(problem, error);
        } finally {
          go.disabled = false;
        }
      },
    },
    fields,
    note,
    problem,
    h("footer", {}, button(text.cancel, () => dialog.close()), go),
  );
  const dialog = openDialog(title, { class: wide ? "wide" : "", signal }, form);
  /** @type {HTMLElement | null} */ (form.querySelector("input, select, textarea"))?.focus();
  return dialog;
}

/**
 * @param {HTMLElement} place
 * @param {unknown} error
 */
export function showProblem(place, error) {
  const { title, next, detail } = explained(error);
  place.replaceChildren(h("div", {}, h("strong", {}, title), next && h("p", {}, withCode(next)), detail && h("p", { class: "small" }, foreign(detail))));
  place.hidden = false;
}

/**
 * Ask before something is lost: the dialog says what, the name has to be typed, and the request waits five seconds in
 * which it can be taken back.
 *
 * @param {{ title: string, lost: Child[], name: string, verb: string, doing: string, run: () => Promise<unknown>, done: string, signal?: AbortSignal }} options
 *   `doing`: what the message with the way back says
 */
export function openDanger({ title, lost, name, verb, doing, run, done, signal }) {
  const typed = field(text.typeTheName(visible(name)), input({ class: "mono", autocapitalize: "off" }));
  // A name with marks that nobody can type is typed as it is shown.
  const isTyped = () => [name, visible(name)].includes(typed.value());
  const go = h("button", { class: "button danger main", type: "submit", disabled: true }, verb);
  typed.control.addEventListener("input", () => {
    go.disabled = !isTyped();
  });
  const dialog = openDialog(
    title,
    { signal },
    h(
      "form",
      {
        class: "form",
        onsubmit: async (/** @type {Event} */ event) => {
          event.preventDefault();
          if (!isTyped()) return;
          dialog.close();
          if (!(await undoable(doing))) {
            say(text.takenBack);
            return;
          }
          try {
            await run();
            say(done);
          } catch (error) {
            const { title: problem, detail } = explained(error);
            say([problem, detail].filter(Boolean).join(" "), { tone: "bad" });
          }
        },
      },
      h("div", { class: "lost" }, h("ul", {}, lost.map((line) => h("li", {}, line)))),
      typed.element,
      h("footer", {}, button(text.cancel, () => dialog.close()), go),
    ),
  );
  typed.control.focus();
  return dialog;
}
