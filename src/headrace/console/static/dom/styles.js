/** The style sheet that one page alone needs, loaded when the page is first shown. */

/** @type {Map<string, Promise<void>>} */
const loaded = new Map();

/**
 * Load `styles/pages/NAME.css` once; done when it applies, or when it cannot be had: a page without it is plain.
 *
 * @param {string} name
 */
export function useStyles(name) {
  const known = loaded.get(name);
  if (known) return known;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = `styles/pages/${name}.css`;
  const done = new Promise((/** @type {(value: void) => void} */ resolve) => {
    link.addEventListener("load", () => resolve());
    link.addEventListener("error", () => resolve());
  });
  loaded.set(name, done);
  document.head.append(link);
  return done;
}
