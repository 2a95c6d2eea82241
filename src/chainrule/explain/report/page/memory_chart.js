// The stack of live bytes drawn over the instructions: click goes to a step.

import { vector } from "./dom.js";
import { columnAt, stackOf } from "./memory_stack.js";
import { bytesText, countText } from "./words.js";

const LEFT = 66;
const RIGHT = 10;
const TOP = 18;
const BOTTOM = 20;
const MOST_CHART_COLUMNS = 4000;
const LABEL_HEIGHT = 13;
const LETTER_WIDTH = 6.4;
const PEAK_ASIDE = 6; // between the words at the peak and the cursor

/**
 * Draws into an SVG element of a given size; `at` gives the x of an instruction.
 * @param {SVGElement} svg
 * @param {import("./chips.js").Page} page
 * @param {{width: number, height: number}} size
 * @returns {{at: function(number): number, instructionAt: function(number): number}}
 */
export function drawMemory(svg, { data, model }, { width, height }) {
  const { memory } = data;
  const most = Math.max(Math.floor(width / 2), 50);
  const stack = stackOf(memory, Math.min(MOST_CHART_COLUMNS, most));
  const { columns, bands, top } = stack;
  const step = Math.max(width - LEFT - RIGHT, 10) / columns.length;
  const x = (column) => LEFT + column * step;
  const y = (nbytes) => TOP + (1 - nbytes / top) * Math.max(height - TOP - BOTTOM, 10);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(
    ...axisShapes(top, y, width),
    ...bands.map((band) => bandPath(band, x, y)),
    ...bands.map((band) => bandLabel(band, x, y)).filter(Boolean),
    ...passes(data.steps, columns, x, y),
    ...peak(model, y, width, x(columnAt(columns, memory.peak_instruction) + 0.5)),
  );
  return {
    at: (instruction) => x(columnAt(columns, instruction) + 0.5),
    instructionAt: (place) => {
      const column = Math.floor((place - LEFT) / step);
      return columns[Math.min(Math.max(column, 0), columns.length - 1)];
    },
  };
}

/**
 * Three lines with their bytes.
 * @param {number} top bytes of the upper one
 * @param {function(number): number} y
 * @param {number} width
 * @returns {SVGElement[]}
 */
export function axisShapes(top, y, width) {
  return [0, 0.5, 1].flatMap((share) => {
    const height = y(top * share);
    const text = share === 0 ? "0" : bytesText(Math.round(top * share));
    return [
      vector("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: height, y2: height }),
      vector("text", { class: "tick", x: LEFT - 6, y: height + 4 }, text),
    ];
  });
}

/**
 * @param {import("./memory_stack.js").Band} band
 * @param {function(number): number} x of a column
 * @param {function(number): number} y of bytes
 * @returns {SVGElement}
 */
export function bandPath(band, x, y) {
  const above = [];
  const below = [];
  const count = band.last - band.first + 1;
  for (let at = 0; at < count; at += 1) {
    const from = at;
    while (
      at + 1 < count &&
      band.low[at + 1] === band.low[from] &&
      band.high[at + 1] === band.high[from]
    ) {
      at += 1;
    }
    const [left, right] = [x(band.first + from).toFixed(1), x(band.first + at + 1).toFixed(1)];
    const [high, low] = [y(band.high[from]).toFixed(1), y(band.low[from]).toFixed(1)];
    above.push(`${left} ${high}L${right} ${high}`);
    below.unshift(`${right} ${low}L${left} ${low}`);
  }
  const thin = y(0) - y(band.nbytes) < 3;
  const path = {
    class: thin ? "band thin-band" : "band",
    "data-kind": band.kind,
    d: `M${above.join("L")}L${below.join("L")}Z`,
  };
  if (band.value !== null) path["data-value-id"] = band.value;
  if (band.isRest) path["data-rest"] = band.kind;
  const inside = band.parts ? ` (${band.parts})` : "";
  const most = band.isRest ? "at most " : "";
  const told = `${band.label}: ${most}${bytesText(band.nbytes)}${inside}`;
  return vector("path", path, vector("title", {}, told));
}

/** A name where the band is high and even for long enough. */
function bandLabel(band, x, y) {
  const label = band.label.split(": ")[0]; // of a loop, without what lies in its result
  const room = label.length * LETTER_WIDTH + 8;
  const count = band.last - band.first + 1;
  for (let from = 0; from < count;) {
    let to = from;
    while (to + 1 < count && Math.abs(y(band.low[to + 1]) - y(band.low[from])) < 1) to += 1;
    const high = y(band.low[from]) - y(band.high[from]);
    if (high >= LABEL_HEIGHT && x(to + 1) - x(from) >= room) {
      const middle = y(band.low[from]) - high / 2 + 4;
      return vector(
        "text",
        { class: "band-label", x: x(band.first + from) + 5, y: middle },
        label,
      );
    }
    from = to + 1;
  }
  return null;
}

/** A line where each pass begins, and its name where that has room before the next one. */
function passes(steps, columns, x, y) {
  const begun = [];
  steps.forEach((step, at) => {
    if (begun.at(-1)?.pass === step.pass) return;
    const middle = steps[at - 1]?.instruction === step.instruction ? 0.5 : 0; // which both passes take
    const place = begun.length ? x(columnAt(columns, step.instruction) + middle) : x(0);
    begun.push({ pass: step.pass, place });
  });
  return begun.flatMap(({ pass, place }, at) => {
    const shown = [];
    const line = { class: "pass-line", x1: place, x2: place, y1: TOP - 4, y2: y(0) };
    if (at) shown.push(vector("line", line));
    const room = (begun[at + 1]?.place ?? Infinity) - place;
    if (room >= pass.length * LETTER_WIDTH)
      shown.push(vector("text", { class: "pass-name", x: place + 3, y: y(0) + 14 }, pass));
    return shown;
  });
}

/**
 * Moves the words at the peak aside where a line at `x` would cut them.
 * @param {SVGElement} svg drawn by `drawMemory`
 * @param {number|null} x
 * @param {number} width of the chart
 */
export function keepPeakClear(svg, x, width) {
  const name = /** @type {SVGTextElement|null} */ (svg.querySelector(".peak-name"));
  if (!name) return;
  name.removeAttribute("transform");
  if (x === null) return;
  const box = name.getBBox();
  if (x < box.x - PEAK_ASIDE || x > box.x + box.width + PEAK_ASIDE) return;
  const after = x + PEAK_ASIDE + box.width < width - RIGHT;
  const left = after ? x + PEAK_ASIDE : x - PEAK_ASIDE - box.width;
  name.setAttribute("transform", `translate(${left - box.x} 0)`);
}

function peak({ data: { memory }, peakStep }, y, width, place) {
  const height = y(memory.peak_nbytes);
  if (!(height >= 0)) return [];
  const step = peakStep ? ` at step ${countText(peakStep)}` : "";
  const text = `peak ${bytesText(memory.peak_nbytes)}${step}`;
  const room = text.length * LETTER_WIDTH;
  const after = place + room < width - RIGHT;
  const x = Math.max(after ? place : width - RIGHT, LEFT);
  return [
    vector("line", { class: "peak-line", x1: LEFT, x2: width - RIGHT, y1: height, y2: height }),
    vector("text", { class: after ? "peak-name" : "peak-name end", x, y: height - 5 }, text),
  ];
}
