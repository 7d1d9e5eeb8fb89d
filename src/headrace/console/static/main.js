/**
 * The start of the console: settings, a login that was kept or given by the address, then the shell.
 * Never here: what is shown (shell.js, pages/).
 */

import { App, DEFAULTS } from "./app.js";
import { h, replace } from "./dom/element.js";
import { isRefusal } from "./nats/credentials.js";
import { keptLogin, keepLogin, showTheme } from "./preferences.js";
import { Shell } from "./shell.js";
import { text } from "./text/login.js";

showTheme();
const secret = takeSecret();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
try {
  const app = new App(await settings());
  const note = secret ? await signInBySecret(app, secret) : "";
  await signInAgain(app);
  new Shell(root, app, note);
} catch (error) {
  replace(root, h("div", { class: "empty", role: "alert" }, h("strong", {}, text.noStart), h("p", {}, String(error))));
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

/**
 * Sign in as the operator of one run of a server. Gives why that was not possible, for the form of the login, or "".
 *
 * @param {App} app
 * @param {string} password
 */
async function signInBySecret(app, password) {
  try {
    await app.signIn({ kind: "password", user: "operator", password }, "operator");
    return "";
  } catch (error) {
    return isRefusal(error) ? text.oldSecret : text.unreachable(app.socket);
  }
}

/**
 * Sign in as before. A login that a server refuses by now is forgotten; one that no server heard of is kept.
 * @param {App} app
 */
async function signInAgain(app) {
  for (const role of /** @type {const} */ (["account", "operator"])) {
    const kept = keptLogin(role);
    if (!kept || app[role]) continue;
    try {
      await app.signIn(JSON.parse(kept), role, { keep: true });
    } catch (error) {
      if (isRefusal(error) || error instanceof SyntaxError) keepLogin(role, null);
    }
  }
}
