// The lines between the parts of the page, which can be moved by pointer and by keys.

import { element } from "./dom.js";

const KEY_PIXELS = 24;

/**
 * A line that sets a length of the page; `sign` is -1 where moving right or down makes it smaller.
 * @param {{name: string, label: string, upright: boolean, sign: number, least: number, most: number}} wish
 * @returns {HTMLElement}
 */
export function createSplitter({ name, label, upright, sign, least, most }) {
  const root = document.documentElement;
  const size = () => parseFloat(getComputedStyle(root).getPropertyValue(name));
  const set = (wanted) => {
    const pixels = Math.round(Math.min(Math.max(wanted, least), most));
    root.style.setProperty(name, `${pixels}px`);
    line.setAttribute("aria-valuenow", String(pixels));
  };
  const line = element("div", {
    class: upright ? "splitter upright" : "splitter",
    role: "separator",
    tabindex: 0,
    "aria-label": label,
    "aria-orientation": upright ? "vertical" : "horizontal",
    "aria-valuemin": least,
    "aria-valuemax": most,
    "aria-valuenow": Math.round(size()) || least,
  });
  let start = null;
  const place = (event) => (upright ? event.clientX : event.clientY);
  line.addEventListener("pointerdown", (event) => {
    line.setPointerCapture(event.pointerId);
    start = { at: place(event), size: size() };
  });
  line.addEventListener("pointermove", (event) => {
    if (start && event.buttons) set(start.size + sign * (place(event) - start.at));
  });
  line.addEventListener("keydown", (event) => {
    const moves = upright ? { ArrowLeft: -1, ArrowRight: 1 } : { ArrowUp: -1, ArrowDown: 1 };
    if (!(event.key in moves)) return;
    set(size() + sign * moves[event.key] * KEY_PIXELS);
    event.preventDefault();
  });
  return line;
}
