// The tab Training: curves of a history, drawn by uPlot when the tab is opened.

import { element } from "./dom.js";

const CURVE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9"];
const FIRST_SCALE = "y";
const OTHER_SCALE = "other";
const APART = 30;

/**
 * @param {any} data
 * @returns {boolean}
 */
export function hasCurves({ curves }) {
  return Boolean(curves?.series.length);
}

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createTraining(page) {
  const { curves } = page.data;
  if (!globalThis.uPlot) return element("div", { class: "empty" }, "The curves need uPlot.");
  const place = element("div", { class: "curves" });
  let plot = null;
  let drawnIn = "";
  const draw = () => {
    const { clientWidth: width, clientHeight: height } = place;
    if (!width || !height) return;
    const theme = document.documentElement.dataset.theme;
    const size = { width, height: Math.max(height - 30, 60) };
    if (plot && drawnIn === theme) {
      plot.setSize(size);
      return;
    }
    plot?.destroy();
    drawnIn = theme;
    plot = new globalThis.uPlot(curveOptions(curves, size, place), curveData(curves), place);
    plot.root.querySelector("canvas").setAttribute("role", "img");
    plot.root.querySelector("canvas").setAttribute("aria-label", curvesText(curves));
  };
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(place);
  page.store.subscribe(["tab", "dark"], () => requestAnimationFrame(draw));
  return element("div", { class: "training-view" }, place);
}

function curveData(curves) {
  const numbers = (list) => list.map((one) => (typeof one === "number" ? one : null));
  return [curves.x.values, ...curves.series.map((one) => numbers(one.values))];
}

/** Curves much smaller or larger than the first have an axis of their own, at the right. */
function curveOptions(curves, size, place) {
  const style = getComputedStyle(place);
  const ink = style.getPropertyValue("--muted").trim();
  const grid = { stroke: style.getPropertyValue("--rule").trim(), width: 1 };
  const axis = { stroke: ink, grid, ticks: grid, font: "11px system-ui, sans-serif" };
  const scales = curveScales(curves);
  const right = { ...axis, scale: OTHER_SCALE, side: 1, size: 62, grid: { show: false } };
  const series = curves.series.map((one, number) => ({
    label: scales[number] === OTHER_SCALE ? `${one.label} (right)` : one.label,
    scale: scales[number],
    stroke: CURVE_COLOURS[number % CURVE_COLOURS.length],
    width: 1.6,
    dash: number % 2 ? [6, 3] : undefined,
    spanGaps: true,
    points: { show: one.values.length < 40 },
  }));
  return {
    ...size,
    cursor: { points: { size: 6 } },
    scales: { x: { time: false } },
    axes: [
      { ...axis, size: 28 },
      { ...axis, scale: FIRST_SCALE, size: 56 },
      ...(scales.includes(OTHER_SCALE) ? [right] : []),
    ],
    series: [{ label: curves.x.label }, ...series],
  };
}

function curveScales({ series }) {
  const sizes = series.map(({ values }) => greatest(values));
  return sizes.map((size) => {
    const times = size / sizes[0];
    return times > APART || times < 1 / APART ? OTHER_SCALE : FIRST_SCALE;
  });
}

function greatest(values) {
  return values.reduce(
    (most, one) => (typeof one === "number" ? Math.max(most, Math.abs(one)) : most),
    1e-300,
  );
}

function curvesText(curves) {
  const last = (values) => values.findLast((value) => typeof value === "number");
  const ends = curves.series.map((one) => `${one.label} ends at ${last(one.values)}`);
  return `Curves over ${curves.x.label}: ${ends.join(", ")}`;
}
