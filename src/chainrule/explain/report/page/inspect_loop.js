// The loop or the choice that a value comes out of: how often, its equations, all that it gives.

import { valueChip } from "./chips.js";
import { element, scrolled } from "./dom.js";
import { equationBlock } from "./equations.js";
import { iterationsContent } from "./inspect_iterations.js";
import { countText, numberText, shapeText } from "./words.js";

const LOOP_STATISTICS = ["min", "max", "mean"];

/**
 * What stands below the heading `loopTitle`.
 * @param {import("./chips.js").Page} page
 * @param {any} loop of a value
 * @returns {HTMLElement[]}
 */
export function loopContent(page, loop) {
  const found = [element("p", { class: "loop-told" }, loopText(loop))];
  if (loop.latex.length) {
    found.push(equationBlock(loop.latex, loop.text));
    if (loop.reads.length) found.push(symbolsElsewhere(page, loop.reads));
  }
  found.push(...iterationsContent(page, loop), resultsTable(page, loop.results));
  return found;
}

/** Where symbols are defined that come from other loops: those whose results this one reads. */
function symbolsElsewhere(page, ids) {
  const chips = ids.map((id) => valueChip(page, id));
  const told = "Symbols that are not defined here are those of the loop of";
  return element("p", { class: "muted term-facts" }, told, ...chips);
}

/**
 * `Loop (scan of cell)`.
 * @param {{operation: string, bodies: string[]}} loop
 * @returns {string}
 */
export function loopTitle({ operation, bodies }) {
  const word = operation === "cond" ? "Choice" : "Loop";
  return `${word} (${operation} of ${bodies.join(", ")})`;
}

function loopText({ operation, length, limit, reverse }) {
  if (operation === "cond") return "One of two graphs is computed, as a condition says.";
  if (length === null) {
    const most = limit === null ? "" : `, ${countText(limit)} times at most`;
    if (reverse) return `Back through the iterations of the loop, from the last to the first${most}.`;
    return `It is done as long as its condition holds${most}.`;
  }
  const count = typeof length === "number" ? countText(length) : length;
  const iterations = `${count} ${length === 1 ? "iteration" : "iterations"} of the loop`;
  return `${iterations}, from the ${reverse ? "last to the first" : "first to the last"} slice.`;
}

/** All results with their shapes, and where there are numbers, their statistics. */
function resultsTable(page, ids) {
  const statistics = page.data.has_values ? LOOP_STATISTICS : [];
  const head = ["gives", "shape", ...statistics].map((text) => element("th", { scope: "col" }, text));
  const rows = ids.map((id) => {
    const { shape, stats } = page.model.values[id];
    const numbers = statistics.map((name) => numberText(stats?.[name], 3));
    const cells = [shapeText(shape), ...numbers].map((text) => element("td", {}, text));
    return element("tr", {}, element("th", { scope: "row" }, valueChip(page, id)), ...cells);
  });
  return scrolled(
    element(
      "table",
      { class: "statistics results" },
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows),
    ),
  );
}
