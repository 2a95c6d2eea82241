// Colours of quantities: cividis, from blue and from brown to light, and blue to orange through
// white for those around 0; all read the same with and without red and green.

const hexColours = (texts) =>
  texts.map((text) => [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16)));

const AROUND_ZERO = hexColours(["08457a", "4a90c4", "b5d3ea", "ffffff", "fbd0a5", "e08a2e", "8a4600"]);

const FROM_BLUE = hexColours(["05264d", "0f4c81", "2f78b7", "6ba9d6", "b9dcf2"]);

const FROM_BROWN = hexColours(["4a2600", "824500", "bd6b10", "e69f45", "fbdcab"]);

const CIVIDIS = hexColours([
  "00224e",
  "002e6c",
  "1e3a6f",
  "35456c",
  "47516c",
  "575d6d",
  "666970",
  "757575",
  "848279",
  "948e77",
  "a59c74",
  "b7a96e",
  "c8b866",
  "dbc75a",
  "eed649",
  "fee838",
]);

/**
 * The colour at a place between 0 and 1.
 * @param {number} place
 * @returns {[number, number, number]}
 */
export function cividis(place) {
  return between(CIVIDIS, place);
}

/**
 * The colour at a place between 0 and 1, from dark to light blue: of values, as in the drawing.
 * @param {number} place
 * @returns {[number, number, number]}
 */
export function fromBlue(place) {
  return between(FROM_BLUE, place);
}

/**
 * The colour at a place between 0 and 1, from brown to light orange: of gradients.
 * @param {number} place
 * @returns {[number, number, number]}
 */
export function fromBrown(place) {
  return between(FROM_BROWN, place);
}

/**
 * The colour at a place between 0 and 1, where 0.5 is the number 0: blue below, orange above.
 * @param {number} place
 * @returns {[number, number, number]}
 */
export function aroundZero(place) {
  return between(AROUND_ZERO, place);
}

function between(colours, place) {
  const at = Math.min(Math.max(place, 0), 1) * (colours.length - 1);
  const low = Math.min(Math.floor(at), colours.length - 2);
  const rest = at - low;
  const mix = (from, to) => Math.round(from + (to - from) * rest);
  return /** @type {any} */ (colours[low].map((from, part) => mix(from, colours[low + 1][part])));
}

/**
 * @param {[number, number, number]} colour
 * @returns {string}
 */
export function colourText(colour) {
  return `rgb(${colour.join(" ")})`;
}

/**
 * Black or white, whichever is easier to read on a colour.
 * @param {[number, number, number]} colour
 * @returns {string}
 */
export function inkOn(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

/**
 * A scale for numbers: from the least to the greatest, by powers where all are positive and some
 * are a hundred times others. `place` is null for what is not finite.
 * @param {(number|null)[]} numbers
 * @returns {{low: number, high: number, byPowers: boolean, place: function(number|null): number|null}|null}
 */
export function scaleOf(numbers) {
  const finite = numbers.filter((one) => one !== null && Number.isFinite(one));
  if (!finite.length) return null;
  let low = Infinity;
  let high = -Infinity;
  for (const one of finite) {
    low = Math.min(low, one);
    high = Math.max(high, one);
  }
  const positive = finite.filter((one) => one > 0);
  const least = positive.reduce((a, b) => Math.min(a, b), Infinity);
  const byPowers = low >= 0 && high / least > 100;
  if (byPowers) low = least;
  const span = byPowers ? Math.log(high / low) : high - low;
  const place = (number) => {
    if (number === null || !Number.isFinite(number)) return null;
    if (!(span > 0)) return 0.5;
    return byPowers ? Math.log(Math.max(number, low) / low) / span : (number - low) / span;
  };
  return { low, high, byPowers, place };
}
