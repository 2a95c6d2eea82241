// The quantities by which boxes can be coloured, and the scales from their numbers to colours.

import { cividis, fromBlue, fromBrown, scaleOf } from "./colours.js";
import { asNumber } from "./words.js";

const GRADIENTS = new Set(["gradient", "parameter-gradient"]);

// Numbers that gradients have on a scale of their own; bytes, steps and counts are as for values.
const OF_ELEMENTS = ["rms", "norm", "min", "max", "mean", "std"];

/**
 * The things by which boxes can be coloured in this report: [key, text].
 * @param {any} data
 * @returns {[string, string][]}
 */
export function colourChoices(data) {
  const found = [
    ["kind", "kind"],
    ["nbytes", "bytes"],
    ["step", "step"],
  ];
  if (!data.has_values) return /** @type {any} */ (found);
  const keys = [...OF_ELEMENTS, "zeros", "nan"];
  const spelled = { nan: "NaN" };
  return /** @type {any} */ ([...found, ...keys.map((key) => [key, spelled[key] ?? key])]);
}

/**
 * @typedef {object} ColourScale
 * @property {string} of what it is for: "values", "gradients", or "" for both
 * @property {function(number): [number, number, number]} colour at a place between 0 and 1
 * @property {number} low
 * @property {number} high
 * @property {boolean} byPowers
 * @property {function(number|null): number|null} place
 */

/**
 * The scales of a quantity, and the colour of each value; null for kinds, and where no value has
 * a number. Norms and other numbers of elements have two scales: gradients are often so much
 * smaller that one scale would show only which boxes are gradients.
 * @param {import("./model.js").Model} model
 * @param {string} colour
 * @returns {{scales: ColourScale[], colourOf: function(number): [number, number, number]|null}|null}
 */
export function quantityOf(model, colour) {
  if (colour === "kind") return null;
  const read = (value, id) => {
    if (colour === "nbytes") return asNumber(value.nbytes);
    if (colour === "step") return model.madeBy[id] || null;
    return asNumber(value.stats?.[colour]);
  };
  const isGradient = model.values.map(({ kind }) => GRADIENTS.has(kind));
  const numbers = model.values.map(read);
  const scale = (of, shades, belongs) => {
    const made = scaleOf(numbers.filter((_, id) => belongs(id)));
    return made && { of, colour: shades, ...made };
  };
  const apart = OF_ELEMENTS.includes(colour);
  const values = apart
    ? scale("values", fromBlue, (id) => !isGradient[id])
    : scale("", cividis, () => true);
  const gradients = apart ? scale("gradients", fromBrown, (id) => isGradient[id]) : values;
  const scales = [...new Set([values, gradients])].filter((one) => one !== null);
  if (!scales.length) return null;
  const colourOf = (id) => {
    const own = isGradient[id] ? gradients : values;
    const place = own?.place(numbers[id]) ?? null;
    return place === null ? null : own.colour(place);
  };
  return { scales, colourOf };
}
