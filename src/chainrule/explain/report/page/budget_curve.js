// Bytes against time: a step for each plan, and a ring around the one that is chosen.

import { apart, moreText } from "./budgets.js";
import { vector } from "./dom.js";

const CURVE_LEFT = 62;
const CURVE_RIGHT = 14;
const CURVE_TOP = 18;
const CURVE_BOTTOM = 22;
const CURVE_SPARE = 0.04; // of the width, beside the least and the most bytes

/**
 * Draws into an SVG element of a given size; `nearest` gives the place of the point that is nearest
 * to an x.
 * @param {SVGElement} svg
 * @param {import("./budgets.js").Budgets} budgets
 * @param {number} chosen
 * @param {{width: number, height: number}} size
 * @returns {{nearest: function(number): number}}
 */
export function drawCurve(svg, { points, highest }, chosen, { width, height }) {
  const most = points[0].needed_nbytes;
  const least = points[points.length - 1].needed_nbytes;
  const spare = Math.max(most - least, 1) * CURVE_SPARE;
  const [low, high] = [least - spare, most + spare];
  const top = Math.max(highest, 0.01) * 1.08;
  const x = (nbytes) =>
    CURVE_LEFT + ((nbytes - low) / (high - low)) * Math.max(width - CURVE_LEFT - CURVE_RIGHT, 10);
  const y = (extra) =>
    CURVE_TOP + (1 - Math.min(extra / top, 1)) * Math.max(height - CURVE_TOP - CURVE_BOTTOM, 10);
  const places = points.map((point) => ({ x: x(point.needed_nbytes), y: y(point.extra) }));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(
    ...curveAxes(top / 1.08, y, width),
    ...curveEnds(least, most, x, height),
    vector("path", { class: "curve", d: stairsThrough(places, x(high)) }),
    ...places.map((place, number) => pointShape(place, number === chosen)),
    ...pointBeyond(points, places, top),
  );
  return {
    nearest: (wanted) => {
      const far = ({ x: here }) => Math.abs(here - wanted);
      return places.reduce((best, place, at) => (far(place) < far(places[best]) ? at : best), 0);
    },
  };
}

function curveAxes(highest, y, width) {
  return [0, 0.5, 1].flatMap((share) => {
    const height = y(highest * share);
    const told = moreText(highest * share);
    return [
      vector("line", {
        class: "grid",
        x1: CURVE_LEFT,
        x2: width - CURVE_RIGHT,
        y1: height,
        y2: height,
      }),
      vector(
        "text",
        { class: "tick", x: CURVE_LEFT - 6, y: height + 4 },
        share ? `+${told}` : told,
      ),
    ];
  });
}

/** The least and the most bytes, where the words have room beside each other. */
function curveEnds(least, most, x, height) {
  const place = { y: height - 6 };
  const [less, more] = apart(least, most);
  const words = [
    vector("text", { class: "tick start", x: x(least) - 6, ...place }, less),
    vector("text", { class: "tick", x: x(most) + 6, ...place }, more),
  ];
  return least === most ? words.slice(1) : words;
}

function stairsThrough(places, right) {
  const steps = places.map((place) => `V${place.y.toFixed(1)}H${place.x.toFixed(1)}`);
  return `M${right.toFixed(1)} ${places[0].y.toFixed(1)}${steps.join("")}`;
}

function pointShape({ x, y }, chosen) {
  return vector("circle", {
    class: chosen ? "point chosen" : "point",
    cx: x,
    cy: y,
    r: chosen ? 6 : 3.5,
  });
}

/** A last point for which the picture has no room. */
function pointBeyond(points, places, top) {
  const last = points.length - 1;
  if (!(points[last].extra > top)) return [];
  const told = `+${moreText(points[last].extra)} ↑`;
  return [vector("text", { class: "tick start", x: places[last].x + 9, y: CURVE_TOP + 4 }, told)];
}
