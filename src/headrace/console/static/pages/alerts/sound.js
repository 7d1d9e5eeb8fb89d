/** A short tone for a new problem: off until a person switches it on, in this tab only. */

const HERTZ = 660;
const SECONDS = 0.18;

export const sound = new (class {
  isOn = false;
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {Set<EventTarget>} */
  #followed = new Set();

  /** @param {boolean} isOn */
  set(isOn) {
    this.isOn = isOn;
    if (isOn) this.play(); // a browser allows sound only in answer to a click: this is one, and how it sounds
  }

  /**
   * Sound for the first event of each group that is a problem.
   * @param {EventTarget} alerts
   */
  follow(alerts) {
    if (this.#followed.has(alerts)) return;
    this.#followed.add(alerts);
    alerts.addEventListener("alert", (event) => {
      const { tone } = /** @type {CustomEvent<import("../../data/alerts.js").Group>} */ (event).detail.told;
      if (this.isOn && (tone === "bad" || tone === "warn")) this.play();
    });
  }

  play() {
    const context = (this.#context ??= new AudioContext());
    const tone = context.createOscillator();
    const loudness = context.createGain();
    tone.frequency.value = HERTZ;
    loudness.gain.setValueAtTime(0.12, context.currentTime);
    loudness.gain.exponentialRampToValueAtTime(0.001, context.currentTime + SECONDS);
    tone.connect(loudness).connect(context.destination);
    tone.start();
    tone.stop(context.currentTime + SECONDS);
  }
})();
