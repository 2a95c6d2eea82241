// Numbers, bytes and shapes as people read them.

const BYTE_UNITS = ["KiB", "MiB", "GiB", "TiB"];
const COUNT_FORMAT = new Intl.NumberFormat("en-US");
const ODD_NUMBERS = { NaN: NaN, inf: Infinity, "-inf": -Infinity };

/**
 * `40 bytes`, `256 KiB`, `1.5 GiB`: three digits; a formula stays a formula; null is unknown.
 * @param {number|string|null} nbytes
 * @returns {string}
 */
export function bytesText(nbytes) {
  if (nbytes === null || nbytes === undefined) return "unknown";
  if (typeof nbytes === "string") return `${nbytes.replaceAll("*", "·")} bytes`;
  if (nbytes < 1024) return `${nbytes} byte${nbytes === 1 ? "" : "s"}`;
  let place = 1;
  while (place < BYTE_UNITS.length && nbytes >= 999.5 * 1024 ** place) place += 1;
  const value = nbytes / 1024 ** place;
  const text = value < 999.5 ? String(threeDigits(value)) : countText(Math.round(value));
  return `${text} ${BYTE_UNITS[place - 1]}`;
}

/** As Python rounds: of two that are equally near, the even one. */
function threeDigits(value) {
  const scale = 10 ** (2 - Math.floor(Math.log10(value)));
  const rounded = Math.round(value * scale);
  const isHalf = Math.abs((value * scale) % 1) === 0.5;
  return Number(((isHalf && rounded % 2 ? rounded - 1 : rounded) / scale).toPrecision(3));
}

/**
 * A number in four digits; the strings "NaN", "inf" and "-inf" of the data too.
 * @param {number|string|null|undefined} number
 * @param {number} [digits]
 * @returns {string}
 */
export function numberText(number, digits = 4) {
  if (number === null || number === undefined) return "–";
  if (typeof number === "string") return number.replace("-inf", "−∞").replace("inf", "∞");
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return minus(countText(number));
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    const [mantissa, power] = number.toExponential(digits - 1).split("e");
    return minus(`${Number(mantissa)}e${power.replace("+", "")}`);
  }
  return minus(String(Number(number.toPrecision(digits))));
}

function minus(text) {
  return text.replaceAll("-", "−");
}

/**
 * What the data calls "NaN", "inf" and "-inf", as a number; null where it is unknown.
 * @param {number|string|null|undefined} number
 * @returns {number|null}
 */
export function asNumber(number) {
  if (typeof number === "number") return number;
  return typeof number === "string" && number in ODD_NUMBERS ? ODD_NUMBERS[number] : null;
}

/**
 * @param {number} count
 * @returns {string}
 */
export function countText(count) {
  return count < 1000 ? String(count) : COUNT_FORMAT.format(count);
}

/**
 * `3 values`, `1 value`.
 * @param {number} count
 * @param {string} noun
 * @returns {string}
 */
export function counted(count, noun) {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * `256 × 10`, `scalar`.
 * @param {(number|string)[]} shape
 * @returns {string}
 */
export function shapeText(shape) {
  if (!shape.length) return "scalar";
  return shape.map((size) => (typeof size === "number" ? countText(size) : size)).join(" × ");
}

/**
 * `float32[256, 10]`.
 * @param {{dtype: string, shape: (number|string)[]}} value
 * @returns {string}
 */
export function typeText(value) {
  return `${value.dtype}[${value.shape.join(", ")}]`;
}

/**
 * `0.4 %`, `35 %`, `99.6 %`: near the ends with a decimal, so that two shares add up.
 * @param {number} share
 * @param {number} [digits] instead of a whole number in the middle
 * @returns {string}
 */
export function percentText(share, digits) {
  const percent = share * 100;
  if (percent > 0 && percent < 0.05) return "< 0.1 %";
  if (percent < 100 && percent >= 99.95) return "> 99.9 %";
  const nearEnd = percent < 10 || percent > 90;
  if (digits && percent >= 10) return `${Number(percent.toPrecision(digits))} %`;
  return `${nearEnd ? Number(percent.toFixed(1)) : Math.round(percent)} %`;
}

/**
 * What the rows and the columns of a table of elements are: `rows: axis 0, columns: axis 1`.
 * @param {number} count of axes
 * @returns {string}
 */
export function axesText(count) {
  const before = Array.from({ length: count - 1 }, (_, axis) => axis).join(", ");
  const rows = count > 1 ? `rows: ax${count > 2 ? "es" : "is"} ${before}, ` : "";
  return `${rows}columns: axis ${count - 1}`;
}

/**
 * `parameter-gradient` as `gradient of a parameter`.
 * @param {string} kind
 * @returns {string}
 */
export function kindText(kind) {
  const spelled = { "parameter-gradient": "gradient of a parameter", update: "updated value" };
  return spelled[kind] ?? kind;
}

/**
 * The same for several: `gradients of parameters`, `constants`.
 * @param {string} kind
 * @returns {string}
 */
export function kindsText(kind) {
  const spelled = { "parameter-gradient": "gradients of parameters", state: "state" };
  return spelled[kind] ?? `${kindText(kind)}s`;
}
