// A value as an image: an element a pixel, in cividis, with what its ends stand for.

import { cividis, colourText } from "./colours.js";
import { element } from "./dom.js";
import { numberText } from "./words.js";

const NOT_FINITE = 255;
const LARGEST_SIDE = 150;

/**
 * @param {{width: number, height: number, low: any, high: any, bytes: string, caption: string}} picture
 * @param {string} name of the value
 * @returns {HTMLElement}
 */
export function pictureFigure(picture, name) {
  const { width, height, low, high, caption } = picture;
  const said = `Picture of ${name}: ${caption}; dark is ${numberText(low)}, bright ${numberText(high)}`;
  const canvas = element("canvas", { width, height, role: "img", "aria-label": said });
  canvas.style.width = `${shownWidth(width, height)}px`;
  paint(/** @type {HTMLCanvasElement} */ (canvas), picture);
  const ends = [0, 0.25, 0.5, 0.75, 1].map((place) => colourText(cividis(place)));
  const bar = element("span", { class: "colour-bar" });
  bar.style.background = `linear-gradient(to right, ${ends.join(", ")})`;
  return element(
    "figure",
    { class: "picture" },
    canvas,
    element(
      "figcaption",
      {},
      element("span", { class: "caption" }, caption),
      element(
        "span",
        { class: "scale" },
        element("span", {}, numberText(low)),
        bar,
        element("span", {}, numberText(high)),
      ),
    ),
  );
}

/** Small pictures are enlarged by whole numbers of pixels; none is wider than its column. */
function shownWidth(width, height) {
  const times = Math.min(LARGEST_SIDE / Math.max(width, height), 16);
  return Math.max(width * (times > 1 ? Math.floor(times) : times), 8);
}

function paint(canvas, { width, height, bytes }) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const levels = atob(bytes);
  for (let place = 0; place < width * height; place += 1) {
    const level = levels.charCodeAt(place);
    const colour = level === NOT_FINITE ? [212, 0, 127] : cividis(level / (NOT_FINITE - 1));
    image.data.set([...colour, 255], place * 4);
  }
  context.putImageData(image, 0, 0);
}
