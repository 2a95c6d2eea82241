// About a scope: how much is in it, and its largest values; about a box without a name: its tip.

import { labelText, stepChip, valueChips, withMark } from "./chips.js";
import { element } from "./dom.js";
import { loopContent, loopTitle } from "./inspect_loop.js";
import { section } from "./inspect_value.js";
import { partRows } from "./operands.js";
import { bytesText, countText, kindsText } from "./words.js";

const LARGEST_SHOWN = 8;
const UNNAMED = "a value without a name";

/**
 * @param {import("./chips.js").Page} page
 * @param {string} key
 * @returns {HTMLElement[]}
 */
export function inspectScope(page, key) {
  const { scopes, store, actions, model } = page;
  const branch = scopes.branches.get(key);
  const isOpen = store.state.open.has(key);
  const parent = scopes.branches.get(branch.parent);
  const rows = [
    ...(branch.data.operators ? [["operators", countText(branch.data.operators)]] : []),
    ...scopes
      .amounts(key)
      .map(({ kind, count, nbytes }) => [
        kindsText(kind),
        `${countText(count)} · ${nbytes === null ? "unknown size" : bytesText(nbytes)}`,
      ]),
  ];
  const largest = [...branch.values]
    .filter((id) => typeof model.values[id].nbytes === "number")
    .sort((one, other) => model.values[other].nbytes - model.values[one].nbytes)
    .slice(0, LARGEST_SHOWN);
  const turn = element(
    "button",
    { type: "button", click: () => actions.toggle(key) },
    isOpen ? "Fold (Enter)" : "Unfold (Enter)",
  );
  const up = () => actions.reveal(parent.key);
  return [
    element("h2", {}, branch.title),
    element("p", { class: "muted" }, scopeText(branch)),
    element("div", { class: "chips" }, turn),
    amountsTable(rows),
    ...(largest.length ? [section("Largest inside", valueChips(page, largest))] : []),
    ...(parent && parent.parent !== null
      ? [
          section(
            "Inside of",
            element("button", { type: "button", class: "chip plain", click: up }, parent.title),
          ),
        ]
      : []),
  ];
}

function scopeText({ kind, data, title }) {
  if (kind === "call") return `the call of ${data.path || title}`;
  if (kind === "repeat") return `the same ${countText(data.count)} times, one after the other`;
  if (kind === "parameters") return "read by the same operators";
  if (kind === "turn") return "one of several that are the same";
  return "a stretch of a long program";
}

function amountsTable(rows) {
  const lines = rows.map(([title, text]) =>
    element("tr", {}, element("th", { scope: "row" }, title), element("td", {}, text)),
  );
  return element("table", { class: "statistics" }, element("tbody", {}, ...lines));
}

/** `a part of logits`, of what a step computes that has no name. */
function partOf(model, number) {
  const part = model.step(number)?.part_of ?? null;
  return part === null ? UNNAMED : `a part of ${labelText(model.values[part])}`;
}

/**
 * @param {import("./chips.js").Page} page
 * @param {string} key
 * @returns {HTMLElement[]}
 */
export function inspectBox(page, key) {
  const shown = page.actions.graph?.layout.boxes.get(key)?.item;
  const item = shown ?? page.data.drawing.items[page.scopes.numberOf.get(key) ?? -1];
  const [first, ...lines] = (item?.tip ?? "a value kept for the backward pass").split("\n");
  const number = page.model.stepOfCircle.get(key);
  const loop = page.model.loopOfStep(number);
  const step = partRows(page, key);
  return [
    element("h2", { class: "plain-head" }, first.replace(UNNAMED, partOf(page.model, number))),
    ...lines.map((line) => element("p", {}, line)),
    step && section(step.title, step.content),
    ...(number && !step ? [element("p", {}, "Computed at ", withMark(stepChip(page, number), "."))] : []),
    ...(loop ? [section(loopTitle(loop), ...loopContent(page, loop))] : []),
  ].filter(Boolean);
}
