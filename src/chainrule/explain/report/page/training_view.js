// The tab Training: curves of a history, drawn by uPlot when the tab is opened.

import { element } from "./dom.js";

const CURVE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9"];
const FIRST_SCALE = "y";
const OTHER_SCALE = "other";
const APART = 30;
const CLOCKS = /^(epoch|seconds|.*_per_second)$/; // drawn when asked for: they tell of the machine
const SHORT_NUMBER = new Intl.NumberFormat("en-US", {
  notation: "compact",
  maximumSignificantDigits: 3,
});

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
  const isShown = curves.series.map(({ label }) => !CLOCKS.test(label));
  if (!isShown.includes(true)) isShown.fill(true);
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
    const options = curveOptions(curves, isShown, size, place);
    plot = new globalThis.uPlot(options, curveData(curves), place);
    makeButtons(plot);
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

/** The names of the curves show and hide them, by pointer (as uPlot has it) and by keys. */
function makeButtons(plot) {
  plot.root.querySelectorAll(".u-series:not(:first-child) th").forEach((name, number) => {
    name.tabIndex = 0;
    name.setAttribute("role", "button");
    name.title = "Show or hide";
    name.setAttribute("aria-pressed", String(plot.series[number + 1].show));
    name.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      name.click();
      event.preventDefault();
    });
  });
}

/** Curves much smaller or larger than the first shown have an axis of their own, at the right. */
function curveOptions(curves, isShown, size, place) {
  const style = getComputedStyle(place);
  const ink = style.getPropertyValue("--muted").trim();
  const grid = { stroke: style.getPropertyValue("--rule").trim(), width: 1 };
  const values = (_, numbers) => numbers.map((one) => SHORT_NUMBER.format(one));
  const axis = { stroke: ink, grid, ticks: grid, font: "11px system-ui, sans-serif", values };
  const scales = curveScales(curves, isShown);
  const fill = style.getPropertyValue("--side").trim();
  const right = { ...axis, scale: OTHER_SCALE, side: 1, size: 62, grid: { show: false } };
  const series = curves.series.map((one, number) => ({
    label: scales[number] === OTHER_SCALE ? `${one.label} (right)` : one.label,
    scale: scales[number],
    stroke: CURVE_COLOURS[number % CURVE_COLOURS.length],
    width: 1.6,
    dash: number % 2 ? [6, 3] : undefined,
    spanGaps: true,
    points: { show: one.values.length < 40, fill },
    show: isShown[number],
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
    hooks: {
      setSeries: [
        (plot, number) => {
          if (!number) return;
          isShown[number - 1] = plot.series[number].show;
          const name = plot.root.querySelectorAll(".u-series th")[number];
          name.setAttribute("aria-pressed", String(isShown[number - 1]));
        },
      ],
    },
  };
}

function curveScales({ series }, isShown) {
  const sizes = series.map(({ values }) => greatest(values));
  const first = sizes[isShown.indexOf(true)] ?? sizes[0];
  return sizes.map((size) => {
    const times = size / first;
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
