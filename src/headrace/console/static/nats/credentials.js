/**
 * What a person signs in with, as what nats-core takes. A seed signs the server's nonce here, in the browser: the
 * token and the signature go out, the seed never does.
 */

import {
  credsAuthenticator,
  jwtAuthenticator,
  nkeyAuthenticator,
  tokenAuthenticator,
  usernamePasswordAuthenticator,
} from "../vendor/nats-core.js";

/**
 * @typedef {{ kind: "none" }
 *   | { kind: "password", user: string, password: string }
 *   | { kind: "token", token: string }
 *   | { kind: "nkey", seed: string }
 *   | { kind: "jwt", jwt: string, seed: string }
 *   | { kind: "creds", text: string }} Login
 */

/** @param {Login} login */
export function authenticators(login) {
  switch (login.kind) {
    case "none":
      return [];
    case "password":
      return [usernamePasswordAuthenticator(login.user, login.password)];
    case "token":
      return [tokenAuthenticator(login.token)];
    case "nkey":
      return [nkeyAuthenticator(bytesOf(login.seed.trim()))];
    case "jwt":
      return [jwtAuthenticator(login.jwt, login.seed ? bytesOf(login.seed.trim()) : undefined)];
    case "creds":
      return [credsAuthenticator(bytesOf(plainLines(login.text)))];
  }
}

const CREDS = /-----BEGIN NATS USER JWT-----\s*\S+\s*-+END NATS USER JWT-+[\s\S]*-----BEGIN USER NKEY SEED-----\s*\S+\s*-+END USER NKEY SEED-+/;
/** A credentials file has a few kilobytes; a token may carry many permissions. */
export const LARGEST_CREDS = 256 * 1024;

/**
 * True for the text of a credentials file.
 * @param {string} text
 */
export function isCreds(text) {
  return CREDS.test(text);
}

/**
 * True for an error that says that a server refused a login.
 * @param {unknown} error
 */
export function isRefusal(error) {
  return error instanceof Error && (error.name === "AuthorizationError" || /authorization|authentication/i.test(error.message));
}

/** @param {string} text */
export function isUserSeed(text) {
  return /^SU[A-Z2-7]{56}$/.test(text.trim());
}

/**
 * The lines of a file, each with the end that nats-core wants: a line feed alone, behind the last one, too.
 * @param {string} text
 */
function plainLines(text) {
  return `${text.trim().replaceAll("\r\n", "\n")}\n`;
}

/** @param {string} text */
function bytesOf(text) {
  return new TextEncoder().encode(text);
}
