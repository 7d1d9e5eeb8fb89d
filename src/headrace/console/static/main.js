/**
 * The start of the console: settings, a login that was kept or given by the address, then the shell.
 * Never here: what is shown (shell.js, pages/).
 */

import { App, DEFAULTS } from "./app.js";
import { h, replace } from "./dom/element.js";
import { keptLogin, keepLogin, showTheme } from "./preferences.js";
import { Shell } from "./shell.js";

showTheme();
const secret = takeSecret();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
try {
  const app = new App(await settings());
  if (secret) await app.signIn({ kind: "password", user: "operator", password: secret }, "operator");
  await signInAgain(app);
  new Shell(root, app);
} catch (error) {
  replace(root, h("div", { class: "empty", role: "alert" }, h("strong", {}, "The console could not start."), h("p", {}, String(error))));
}

async function settings() {
  const answer = await fetch("console.json", { cache: "no-store" });
  if (!answer.ok) throw new Error(`console.json: ${answer.status}`);
  return { ...DEFAULTS, ...(await answer.json()) };
}

/**
 * The secret of `headrace serve --console`, in the part of the address that is never sent; it is taken out of there
 * at once.
 */
function takeSecret() {
  const found = /^#operator=([\w-]+)$/.exec(location.hash);
  if (!found) return "";
  history.replaceState(null, "", `${location.pathname}#/overview`);
  return found[1];
}

/** @param {App} app */
async function signInAgain(app) {
  for (const role of /** @type {const} */ (["account", "operator"])) {
    const kept = keptLogin(role);
    if (!kept || app[role]) continue;
    try {
      await app.signIn(JSON.parse(kept), role, { keep: true });
    } catch {
      keepLogin(role, null); // it is refused by now: the login is asked for again
    }
  }
}
