/** The token of an account in operator mode: who signed it, until when, which users it revokes. */

import { foreign, h, replace } from "../../dom/element.js";
import { text } from "../../text/accounts.js";
import { card, facts, tag, when } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";

/** @typedef {import("../../nats/accounts.js").Claims} Claims */

/**
 * @param {HTMLElement} body
 * @param {import("./one.js").Account} account
 */
export function showClaims(body, { claims, detail }) {
  if (!claims) return replace(body, empty(text.noToken, text.noTokenNext));
  return replace(body, card(text.tabs.claims, {}, claimFacts(claims)), card(text.revocations, { flush: true }, revocations(claims, detail?.revoked_user)), asJson(claims, body));
}

/** @param {Claims} claims */
function claimFacts(claims) {
  const names = text.token;
  const keys = (claims.nats?.signing_keys ?? []).map((key) => (typeof key === "string" ? key : `${key.key}${key.role ? ` (${key.role})` : ""}`));
  return facts([
    [names.name, claims.name ? foreign(claims.name) : null],
    [names.subject, foreign(claims.sub, "mono")],
    [names.issuer, foreign(claims.iss, "mono")],
    [names.issued, claims.iat ? when(claims.iat * 1_000) : null],
    [names.expires, claims.exp ? when(claims.exp * 1_000) : text.never],
    [names.description, claims.nats?.description ? foreign(claims.nats.description) : null],
    [names.tags, claims.nats?.tags?.length ? h("span", { class: "row" }, claims.nats.tags.map((one) => tag(foreign(one)))) : null],
    [names.signing, keys.length ? h("ul", {}, keys.map((key) => h("li", {}, foreign(key, "mono")))) : null],
  ]);
}

/**
 * @param {Claims} claims
 * @param {Record<string, string> | undefined} told by a server that does not show the claims
 */
function revocations(claims, told) {
  const found = Object.entries(claims.nats?.revocations ?? {}).map(([user, time]) => /** @type {[string, number | string]} */ ([user, time * 1_000]));
  const rows = found.length ? found : Object.entries(told ?? {});
  if (!rows.length) return empty(text.revocationsNone);
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table", "aria-label": text.revocations },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text.revoked.user), h("th", { scope: "col" }, text.revoked.before))),
      h("tbody", {}, rows.map(([user, time]) => h("tr", {}, h("td", {}, user === "*" ? text.allUsers : foreign(user, "mono")), h("td", {}, when(time))))),
    ),
  );
}

/**
 * @param {Claims} claims
 * @param {HTMLElement} body what is shown now: opened stays open
 */
function asJson(claims, body) {
  const wasOpen = body.querySelector("details[data-claims]")?.hasAttribute("open") ?? false;
  return h("details", { "data-claims": true, open: wasOpen }, h("summary", { class: "muted" }, text.asJson), h("pre", { class: "code" }, foreign(JSON.stringify(claims, null, 2))));
}
