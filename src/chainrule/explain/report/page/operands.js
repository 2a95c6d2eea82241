// What a value or a step is computed from, and what that gives: each with a small picture and its
// numbers.

import { valueChip } from "./chips.js";
import { element } from "./dom.js";
import { equationBlock } from "./equations.js";
import { smallPicture } from "./picture.js";
import { isSingle } from "./statistics_table.js";
import { countText, numberText, shapeText } from "./words.js";

const MOST_ROWS = 8;

/**
 * @param {import("./chips.js").Page} page
 * @param {number} id
 * @returns {HTMLElement}
 */
export function operandRows(page, id) {
  return rows(page, page.model.values[id].reads, operandRow(page, id, "gives "));
}

/**
 * All that the step at the cursor computes, and from what; null unless `id` is one of the values
 * that it makes.  The equation of `id` itself is said elsewhere.
 * @param {import("./chips.js").Page} page
 * @param {number} id
 * @returns {{title: string, content: HTMLElement}|null}
 */
export function stepRows(page, id) {
  const { model, store } = page;
  const number = store.state.cursor;
  const step = model.step(number);
  const made = step ? [...step.writes, ...step.adds] : [];
  if (!made.includes(id)) return null;
  const reads = new Set(made.flatMap((one) => model.values[one].reads));
  const given = [...reads].filter((one) => !made.includes(one));
  const results = made.slice(0, MOST_ROWS).flatMap((one) => {
    const part = step.adds.includes(one) ? "gives a part of " : "gives ";
    const { equation } = model.values[one];
    const isSaid = one === id || !equation;
    const said = isSaid ? null : equationBlock(equation.latex.slice(0, 1), equation.text.split("\n")[0]);
    return [operandRow(page, one, part), said].filter(Boolean);
  });
  const rest = made.length - MOST_ROWS;
  const more = rest > 0 && element("p", { class: "muted" }, `and ${countText(rest)} more`);
  return { title: stepHeading(model, number), content: rows(page, given, ...results, more) };
}

/**
 * The same for a step that makes no named value: what it reads, and what it gives, as a whole if
 * it is a loop, or a part of it; null for a box whose step is not the one at the cursor.
 * @param {import("./chips.js").Page} page
 * @param {string} key of the box
 * @returns {{title: string, content: HTMLElement}|null}
 */
export function partRows(page, key) {
  const { model, store } = page;
  const number = store.state.cursor;
  const step = model.step(number);
  if (!step || model.stepOfCircle.get(key) !== number) return null;
  const loop = model.loopOfStep(number);
  const part = step.part_of === null ? [] : [partRow(page, step.part_of)];
  const results = loop ? loop.results.map((one) => operandRow(page, one, "gives ")) : part;
  return { title: stepHeading(model, number), content: rows(page, step.reads, ...results) };
}

function stepHeading(model, number) {
  const { title } = model.step(number);
  return `Step ${countText(number)} of ${countText(model.steps.length)}: ${title}`;
}

/** A row for each of some operands, then what they give. */
function rows(page, reads, ...results) {
  const rest = reads.length - MOST_ROWS;
  return element(
    "div",
    { class: "operands" },
    ...reads.slice(0, MOST_ROWS).map((one) => operandRow(page, one, "")),
    rest > 0 && element("p", { class: "muted" }, `and ${countText(rest)} more`),
    ...results,
  );
}

/** A row without numbers, which are those of the whole. */
function partRow(page, id) {
  const what = element("span", { class: "what" }, "gives a part of ", valueChip(page, id));
  return element("div", { class: "operand part" }, what);
}

function operandRow(page, id, word) {
  const value = page.model.values[id];
  return element(
    "div",
    { class: "operand" },
    element("span", { class: "what" }, word, valueChip(page, id)),
    element("span", { class: "small-picture" }, value.picture && smallPicture(value.picture, value.name)),
    element("span", { class: "muted" }, numbersText(value)),
  );
}

/** `−0.31 … 2.4`, or the number that it is; without numbers, the shape. */
function numbersText(value) {
  if (!value.stats) return shapeText(value.shape);
  if (isSingle(value)) return numberText(value.numbers?.[0] ?? value.stats.min);
  const [low, high] = [numberText(value.stats.min), numberText(value.stats.max)];
  return low === high ? `all ${low}` : `${low} … ${high}`;
}
