// How the elements of a value are spread, as bars.

import { element, vector } from "./dom.js";
import { asNumber, countText, numberText } from "./words.js";

const BARS_WIDTH = 144;
const BARS_HEIGHT = 44;

/**
 * @param {{low: any, high: any, counts: number[]}} histogram
 * @param {string} name of the value
 * @param {string} kind decides the colour
 * @returns {HTMLElement}
 */
export function histogramFigure(histogram, name, kind) {
  const { low, high, counts } = histogram;
  const most = Math.max(...counts, 1);
  const step = BARS_WIDTH / counts.length;
  const width = (asNumber(high) - asNumber(low)) / counts.length;
  const bars = counts.map((count, place) => {
    const height = count ? Math.max((count / most) * (BARS_HEIGHT - 1), 1) : 0;
    const from = asNumber(low) + place * width;
    const told = `${countText(count)} in ${numberText(from)} … ${numberText(from + width)}`;
    return vector(
      "rect",
      { x: place * step, y: BARS_HEIGHT - height, width: Math.max(step - 1, 1), height },
      vector("title", {}, told),
    );
  });
  const said = `Histogram of ${name}, from ${numberText(low)} to ${numberText(high)}`;
  const view = `0 0 ${BARS_WIDTH} ${BARS_HEIGHT}`;
  return element(
    "figure",
    { class: "histogram", "data-kind": kind },
    vector(
      "svg",
      { viewBox: view, role: "img", "aria-label": said, preserveAspectRatio: "none" },
      ...bars,
    ),
    element(
      "figcaption",
      {},
      element("span", {}, numberText(low)),
      element("span", {}, numberText(high)),
    ),
  );
}
