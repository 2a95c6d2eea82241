// The bytes in use during a run within a budget, by kind, over those of the plan without one.

import { vector } from "./dom.js";
import { axisShapes, bandPath } from "./memory_chart.js";
import { bytesText } from "./words.js";

const PROFILE_LEFT = 66;
const PROFILE_RIGHT = 10;
const PROFILE_TOP = 18;
const PROFILE_BOTTOM = 6;
const LABEL_HIGH = 13;
const LETTER_WIDE = 6.4;

/**
 * Draws into an SVG element of a given size.
 * @param {SVGElement} svg
 * @param {import("./budgets.js").Budgets} budgets
 * @param {number} chosen
 * @param {{width: number, height: number}} size
 */
export function drawProfile(svg, { points }, chosen, { width, height }) {
  const top = points.reduce((most, { peak_nbytes: peak }) => Math.max(most, peak), 1);
  const point = points[chosen];
  const columns = Math.max(profileColumns(point), 1);
  const x = (column, count = columns) =>
    PROFILE_LEFT + (column / count) * Math.max(width - PROFILE_LEFT - PROFILE_RIGHT, 10);
  const y = (nbytes) =>
    PROFILE_TOP + (1 - nbytes / top) * Math.max(height - PROFILE_TOP - PROFILE_BOTTOM, 10);
  const bands = profileBands(point);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(
    ...axisShapes(top, y, width),
    ...bands.map((band) => bandPath(band, x, y)),
    ...bands.map((band) => profileLabel(band, x, y)).filter(Boolean),
    ...(chosen ? [profileOutline(points[0], x, y)] : []),
    ...profilePeak(point, y, width),
  );
}

function profileColumns({ kinds }) {
  return Object.values(kinds)[0]?.length ?? 0;
}

function profileBands(point) {
  const count = profileColumns(point);
  const floor = new Float64Array(count);
  return Object.entries(point.kinds).map(([kind, nbytes]) => {
    const low = floor.slice();
    nbytes.forEach((amount, column) => (floor[column] += amount));
    const most = Math.max(...nbytes);
    const band = { value: null, label: kind, kind, nbytes: most, first: 0, last: count - 1 };
    return { ...band, low, high: floor.slice() };
  });
}

/** A name where the band is high for long enough. */
function profileLabel({ label, low, high }, x, y) {
  const isHigh = (column) => y(low[column]) - y(high[column]) >= LABEL_HIGH;
  let best = [0, 0];
  for (let from = 0; from < low.length; from += 1) {
    let to = from;
    while (to < low.length && isHigh(to)) to += 1;
    if (to - from > best[1] - best[0]) best = [from, to];
    from = Math.max(from, to);
  }
  const [left, right] = best.map((column) => x(column, low.length));
  if (right - left < label.length * LETTER_WIDE + 8) return null;
  const middle = (best[0] + best[1] - 1) >> 1;
  const place = { x: (left + right) / 2, y: (y(low[middle]) + y(high[middle])) / 2 + 4 };
  return vector("text", { class: "band-label middle", ...place }, label);
}

/** The upper edge of all bytes in use. */
function profileOutline(point, x, y) {
  const bands = profileBands(point);
  const { high } = bands[bands.length - 1];
  const parts = Array.from(high, (nbytes, column) => {
    const [left, right] = [x(column, high.length), x(column + 1, high.length)];
    return `${left.toFixed(1)} ${y(nbytes).toFixed(1)}L${right.toFixed(1)} ${y(nbytes).toFixed(1)}`;
  });
  return vector("path", { class: "before", d: `M${parts.join("L")}` });
}

function profilePeak({ peak_nbytes: nbytes }, y, width) {
  const height = y(nbytes);
  const told = `peak ${bytesText(nbytes)}`;
  return [
    vector("line", {
      class: "peak-line",
      x1: PROFILE_LEFT,
      x2: width - PROFILE_RIGHT,
      y1: height,
      y2: height,
    }),
    vector("text", { class: "peak-name end", x: width - PROFILE_RIGHT, y: height - 5 }, told),
  ];
}
