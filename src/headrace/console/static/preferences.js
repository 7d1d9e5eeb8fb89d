/**
 * What this browser remembers between visits: the theme and the columns of tables, in `localStorage`; and where a
 * person asked for it, the login of this tab in `sessionStorage`. Nothing else is kept anywhere.
 */

const THEME = "headrace.theme";
const COLUMNS = "headrace.columns.";
const LOGIN = "headrace.login.";

/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export function theme() {
  const kept = read("localStorage", THEME);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** @param {Theme} chosen */
export function setTheme(chosen) {
  write("localStorage", THEME, chosen === "system" ? null : chosen);
  showTheme();
}

/** Give the page the theme that was chosen. */
export function showTheme() {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  window.dispatchEvent(new Event("themechange"));
}

/**
 * The columns that a person hid in a table, by their names.
 * @param {string} table
 * @returns {string[] | null}
 */
export function hiddenColumns(table) {
  const kept = read("localStorage", COLUMNS + table);
  return kept === null ? null : kept.split(",").filter(Boolean);
}

/**
 * @param {string} table
 * @param {string[]} hidden
 */
export function hideColumns(table, hidden) {
  write("localStorage", COLUMNS + table, hidden.join(","));
}

/**
 * The login of this tab, if a person asked to keep it.
 * @param {"account" | "operator"} role
 */
export function keptLogin(role) {
  return read("sessionStorage", LOGIN + role);
}

/**
 * @param {"account" | "operator"} role
 * @param {string | null} login
 */
export function keepLogin(role, login) {
  write("sessionStorage", LOGIN + role, login);
}

/**
 * Storage may be switched off in a browser, which then throws: the console remembers nothing there.
 * @param {"localStorage" | "sessionStorage"} storage
 * @param {string} key
 */
function read(storage, key) {
  try {
    return window[storage].getItem(key);
  } catch {
    return null;
  }
}

/**
 * @param {"localStorage" | "sessionStorage"} storage
 * @param {string} key
 * @param {string | null} value
 */
function write(storage, key, value) {
  try {
    if (value === null) window[storage].removeItem(key);
    else window[storage].setItem(key, value);
  } catch {
    // as in `read`
  }
}
