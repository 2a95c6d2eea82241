// Everything about one value: where it comes from, what it is, what it is needed for.

import { timeText } from "./budgets.js";
import { chainRule } from "./chain_rule.js";
import { labelText, makerChips, stepChip, swatch, valueChips } from "./chips.js";
import { copyButton } from "./copying.js";
import { element } from "./dom.js";
import { equationBlock } from "./equations.js";
import { histogramFigure } from "./histogram.js";
import { loopContent, loopTitle } from "./inspect_loop.js";
import { lifetime } from "./lifetime.js";
import { mathematics } from "./mathematics.js";
import { operandRows, stepRows } from "./operands.js";
import { pictureFigure } from "./picture.js";
import { sourceLines, sourcePlace } from "./source_lines.js";
import { isSingle, numbersTable, statisticsTable } from "./statistics_table.js";
import { axesText, bytesText, countText, kindText, typeText } from "./words.js";

const DECLARED = ["input", "parameter", "state", "constant"]; // kinds that nothing computes

/**
 * @param {import("./chips.js").Page} page
 * @param {number} id
 * @returns {HTMLElement[]}
 */
export function inspectValue(page, id) {
  const value = page.model.values[id];
  const base = value.of ?? id;
  const gradient = value.of === null ? value.gradient : id;
  const both = gradient === null ? [base] : [base, gradient];
  const step = stepRows(page, id);
  return [
    valueHead(page, id, base, gradient),
    partSection(page, id),
    step && section(step.title, step.content),
    ...equationSection(page, id),
    value.loop && section(loopTitle(value.loop), ...loopContent(page, value.loop)),
    ...chainSection(page, gradient),
    ...reasons(value),
    ...zeroSections(page, base, gradient, id),
    ...sourceSection(page, value),
    section("Numbers", statisticsTable(page, both), ...pictures(page, both), silence(page)),
    section("In memory", lifetime(page, id), ...memoryText(page, value), againWithin(page, id)),
    ...links(page, value, id, !step),
  ].filter(Boolean);
}

/**
 * @param {string} title
 * @param {...(Node|string|false|null)} content
 * @returns {HTMLElement}
 */
export function section(title, ...content) {
  return element("section", {}, element("h3", {}, title), ...content);
}

function valueHead(page, id, base, gradient) {
  const value = page.model.values[id];
  const shown = value.of === null ? null : gradient;
  return element(
    "header",
    { class: "value-head" },
    element("h2", { "aria-label": value.name }, mathematics(value.latex, labelText(value))),
    element(
      "div",
      { class: "path" },
      element("code", { id: "value-path" }, value.name),
      copyButton(value.name),
    ),
    element(
      "p",
      { class: "muted kind-line" },
      swatch(value.kind),
      `${kindText(value.kind)} · ${typeText(value)} · ${bytesText(value.nbytes)}`,
    ),
    gradient !== null && base !== gradient && switchOver(page, base, gradient, shown),
  );
}

/** What was chosen in the memory: it has no name of its own and lies inside of this value. */
function partSection(page, id) {
  const { part } = page.store.state;
  if (!part || page.store.state.selected !== id) return null;
  const made = [" It is made at ", stepChip(page, part.step + 1)];
  const { loop } = page.model.values[id];
  if (part.parts && loop) {
    const told = element("p", {}, `In memory this is one array of ${bytesText(part.nbytes)}: `);
    told.append(`${part.parts}.`, ...made, ", and holds");
    return section(part.label, told, valueChips(page, loop.results));
  }
  const name = labelText(page.model.values[id]);
  const told = element("p", {}, `${bytesText(part.nbytes)} without a name, on the way to ${name}.`);
  const last = Math.max(page.model.stepAt(part.last), part.step + 1);
  told.append(...made, ", and freed after ", stepChip(page, last), ".");
  return section(part.label, told);
}

/** Two buttons: the value, its gradient. */
function switchOver(page, base, gradient, shown) {
  const button = (id, word, pressed) =>
    element(
      "button",
      {
        type: "button",
        "aria-pressed": String(pressed),
        title: "g",
        click: () => page.actions.reveal(id),
      },
      word,
    );
  return element(
    "div",
    { class: "switch", role: "group", "aria-label": "Value or gradient" },
    button(base, "value", shown === null),
    button(gradient, "gradient", shown !== null),
  );
}

function equationSection(page, id) {
  const { equation } = page.model.values[id];
  if (!equation) return [];
  const block = equationBlock(equation.latex, equation.text);
  if (equation.latex.length > 1)
    block.firstElementChild?.after(element("div", { class: "muted" }, "where"));
  return [madeSection(page, id, "Equation", block)];
}

function chainSection(page, gradient) {
  if (gradient === null || !page.model.values[gradient].chain.length) return [];
  const title = `Chain rule of ${labelText(page.model.values[gradient])}`;
  return [madeSection(page, gradient, title, chainRule(page, gradient))];
}

/** A section whose heading says at which steps a value is made. */
function madeSection(page, id, title, content) {
  const found = section(title, content);
  const heading = /** @type {HTMLElement} */ (found.firstChild);
  if (page.model.madeBy[id]) heading.append(" · made at ", ...makerChips(page, id));
  return found;
}

function reasons(value) {
  return value.kept_because ? [section("Kept because", element("p", {}, value.kept_because))] : [];
}

/**
 * Why elements of the gradient are 0, and which units of the value are dead: below a gradient only
 * where it has elements that are 0.
 */
function zeroSections({ model }, base, gradient, id) {
  const { dead } = model.values[base];
  const [first, ...causes] = gradient === null ? [] : model.values[gradient].zeros;
  const lines = (texts) =>
    element("ul", { class: "causes" }, ...texts.map((line) => element("li", {}, line)));
  return [
    dead && (id === base || first) && section("Dead units", element("p", {}, dead)),
    first && section("Why 0", element("p", {}, first), causes.length > 0 && lines(causes)),
  ].filter(Boolean);
}

function sourceSection(page, value) {
  if (!value.source) {
    const told = "It has no line in the program.";
    return value.kind === "update" ? [section("Computed by the optimizer", element("p", {}, told))] : [];
  }
  const place = sourcePlace(page.data, value.source);
  const given = DECLARED.includes(value.kind) ? "Declared in" : "Computed in";
  const word = value.of === null ? given : "Differentiates";
  return [section(`${word} ${place}`, sourceLines(page.data, value.source))];
}

function pictures(page, ids) {
  const values = ids.map((id) => page.model.values[id]);
  if (values.every(isSingle)) return [];
  const columns = values.map((value) =>
    element(
      "div",
      { class: "pictures" },
      element("h4", {}, labelText(value), value.numbers && axesOf(value)),
      value.numbers && numbersTable(value),
      value.histogram && histogramFigure(value.histogram, value.name, value.kind),
      value.picture && pictureFigure(value.picture, value.name),
    ),
  );
  const some = values.some((value) => value.numbers || value.histogram || value.picture);
  return some ? [element("div", { class: "columns" }, ...columns)] : [];
}

/** What the rows and columns of the numbers of a value are. */
function axesOf({ shape }) {
  return shape.length > 1 && element("span", { class: "axes" }, ` ${axesText(shape.length)}`);
}

function silence(page) {
  if (page.data.has_values) return null;
  return element("p", { class: "muted" }, "No numbers: this report was made without inputs.");
}

/** The sentence of the memory report, which counts the steps. */
function memoryText({ data }, { why }) {
  return why && data.memory ? [element("p", {}, why)] : [];
}

/** What the chosen budget means for a value. */
function againWithin({ budgets, model, store }, id) {
  const { budget } = store.state;
  const row = budgets?.rowOf(budget, id);
  if (!row) return null;
  const from = row.sources.map((one) => labelText(model.values[one])).join(", ");
  const parts = [
    `Within ${bytesText(budgets.points[budget].needed_nbytes)}: computed again`,
    from && ` from ${from}`,
    row.times > 1 && `, ${countText(row.times)} times`,
    row.nanoseconds && `, in about ${timeText(row.nanoseconds)}`,
    `; ${bytesText(row.nbytes)} are free meanwhile.`,
  ];
  return element("p", {}, parts.filter(Boolean).join(""));
}

function links(page, value, id, isFirst) {
  const found = [];
  if (value.reads.length && isFirst) found.push(section("Made from", operandRows(page, id)));
  if (value.read_by.length) found.push(section("Used by", valueChips(page, value.read_by)));
  const scope = page.scopes.around(page.scopes.keyOf(id) ?? "").at(-1);
  if (scope !== undefined) {
    const attributes = {
      class: "chip plain",
      type: "button",
      click: () => page.actions.reveal(scope),
    };
    const { title } = page.scopes.branches.get(scope);
    found.push(section("Inside of", element("button", attributes, title)));
  }
  return found;
}
