// A value as an image: a pixel for an element or for the mean of some, with what its ends stand for,
// and the index and number of the pixel under the pointer, or that arrow keys go to.

import { aroundZero, cividis, colourText } from "./colours.js";
import { element } from "./dom.js";
import { numberText } from "./words.js";

const NOT_FINITE = 255;
const LARGEST_SIDE = 150;
const SMALL_SIDE = 40;
const NOT_FINITE_COLOUR = [212, 0, 127];
const PIXEL_KEYS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * @param {{width: number, height: number, low: any, high: any, bytes: string, caption: string,
 *   centred: boolean, block: number[]|null}} picture
 * @param {string} name of the value
 * @returns {HTMLElement}
 */
export function pictureFigure(picture, name) {
  const { width, height, low, high, caption, centred, block } = picture;
  const levels = atob(picture.bytes);
  if (low === high && !levels.includes(String.fromCharCode(NOT_FINITE))) return flatFigure(picture);
  const colour = coloursOf(picture);
  const [atLow, atHigh] = colour.ends;
  const middle = centred ? "white 0, " : "";
  const ends = `${atLow} is ${numberText(low)}, ${middle}${atHigh} ${numberText(high)}`;
  const canvas = element("canvas", {
    width,
    height,
    role: "img",
    "aria-label": `Picture of ${name}: ${caption}; ${ends}`,
  });
  canvas.style.width = `${shownWidth(width, height)}px`;
  paint(/** @type {HTMLCanvasElement} */ (canvas), levels, colour.at);
  const bar = element("span", { class: "colour-bar" });
  const stops = [0, 0.25, 0.5, 0.75, 1].map((place) => colourText(colour.at(place)));
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const pixel = element("output", { class: "caption pixel" });
  if (block) readPixels(canvas, pixel, picture, levels);
  return element(
    "figure",
    { class: "picture" },
    canvas,
    element(
      "figcaption",
      {},
      pixel,
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

/** Of a value whose elements are all equal: what they are. */
function flatFigure({ low, caption }) {
  const told = element("span", { class: "caption" }, caption);
  return element("figure", { class: "picture" }, `all elements are ${numberText(low)}`, told);
}

/**
 * The image alone, as small as an icon.
 * @param {any} picture as of `pictureFigure`
 * @param {string} name of the value
 * @returns {HTMLElement}
 */
export function smallPicture(picture, name) {
  const { width, height, bytes, caption } = picture;
  const label = `Picture of ${name}: ${caption}`;
  const canvas = element("canvas", { class: "small", width, height, role: "img" });
  canvas.setAttribute("aria-label", label);
  canvas.title = label;
  const times = Math.min(SMALL_SIDE / Math.max(width, height), 8);
  canvas.style.width = `${Math.max(width * times, 4)}px`;
  canvas.style.height = `${Math.max(height * times, 4)}px`;
  paint(/** @type {HTMLCanvasElement} */ (canvas), atob(bytes), coloursOf(picture).at);
  return canvas;
}

/**
 * The colours between the ends of a picture: 0 is white wherever it is on the scale, in the middle
 * or at one end of it; images, and numbers far from 0, go from dark to bright.
 * @param {{low: any, high: any, centred: boolean, block: number[]|null}} picture
 * @returns {{at: function(number): [number, number, number], ends: string[]}}
 */
export function coloursOf({ low, high, centred, block }) {
  if (centred) return { at: aroundZero, ends: ["blue", "orange"] };
  if (block && low === 0)
    return { at: (place) => aroundZero(0.5 + place / 2), ends: ["white", "orange"] };
  if (block && high === 0) return { at: (place) => aroundZero(place / 2), ends: ["blue", "white"] };
  return { at: cividis, ends: ["dark", "bright"] };
}

/** Writes which pixel the pointer is on, or the arrow keys: `[3, 17] ≈ 0.213`. */
function readPixels(canvas, output, picture, levels) {
  const { width, height } = picture;
  const at = [0, 0];
  const show = (row, column) => {
    at[0] = Math.min(Math.max(row, 0), height - 1);
    at[1] = Math.min(Math.max(column, 0), width - 1);
    output.textContent = pixelText(picture, levels, at[0], at[1]);
  };
  canvas.tabIndex = 0;
  canvas.addEventListener("pointermove", (event) => {
    const { left, top, width: wide, height: tall } = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - top) / tall) * height);
    show(row, Math.floor(((event.clientX - left) / wide) * width));
  });
  canvas.addEventListener("pointerleave", () => {
    output.textContent = "";
  });
  canvas.addEventListener("focus", () => show(at[0], at[1]));
  canvas.addEventListener("keydown", (event) => {
    const move = PIXEL_KEYS[event.key];
    if (!move) return;
    show(at[0] + move[0], at[1] + move[1]);
    event.preventDefault();
    event.stopPropagation();
  });
}

/**
 * The index of a pixel in the matrix that is shown, and its number as far as its colour says it.
 * @param {{width: number, height: number, low: any, high: any, block: number[]}} picture
 * @param {string} levels
 * @param {number} row
 * @param {number} column
 * @returns {string}
 */
export function pixelText({ width, height, low, high, block }, levels, row, column) {
  const level = levels.charCodeAt(row * width + column);
  const places = [row, column].map((place, axis) => {
    const first = place * block[axis];
    return block[axis] === 1 ? `${first}` : `${first}:${first + block[axis]}`;
  });
  const index = `[${(height === 1 && block[0] === 1 ? places.slice(1) : places).join(", ")}]`;
  if (level === NOT_FINITE) return `${index} not finite`;
  if (typeof low !== "number" || typeof high !== "number") return index;
  const share = level / (NOT_FINITE - 1);
  return `${index} ≈ ${Number((low * (1 - share) + high * share).toPrecision(3))}`;
}

/** Small pictures are enlarged by whole numbers of pixels; none is wider than its column. */
function shownWidth(width, height) {
  const times = Math.min(LARGEST_SIDE / Math.max(width, height), 16);
  return Math.max(width * (times > 1 ? Math.floor(times) : times), 8);
}

function paint(canvas, levels, colourOf) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let place = 0; place < levels.length; place += 1) {
    const level = levels.charCodeAt(place);
    const colour = level === NOT_FINITE ? NOT_FINITE_COLOUR : colourOf(level / (NOT_FINITE - 1));
    image.data.set([...colour, 255], place * 4);
  }
  context.putImageData(image, 0, 0);
}
