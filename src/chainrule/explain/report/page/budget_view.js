// The tab Budget: a slider over plans for less and less memory, and what each computes again.

import { againText, apart, budgetText, spokenBudget, timeText } from "./budgets.js";
import { drawCurve } from "./budget_curve.js";
import { drawProfile } from "./budget_profile.js";
import { labelText, shortened, swatch, valueLabel } from "./chips.js";
import { copyButton } from "./copying.js";
import { element, oncePerFrame, vector, whenCalm } from "./dom.js";
import { bytesText, countText, counted } from "./words.js";

const ROWS_LISTED = 80;
const LIST_PAUSE = 60; // milliseconds; a list with formulas takes longer than a frame
const NAME_LETTERS = 18;
const PART_LETTERS = 10;
const SOURCE_LETTERS = 15;
const SOURCES_LETTERS = 19; // of all that are written

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createBudgetView(page) {
  const { budgets, store } = page;
  const curve = budgetChart("Predicted time against memory");
  const profile = budgetChart("Arrays during a run");
  const list = element("div", { class: "again" });
  const size = ({ clientWidth: width, clientHeight: height }) => ({ width, height });
  let scale = null;
  const draw = oncePerFrame(() => {
    const { budget } = store.state;
    const [left, right] = [size(curve.place), size(profile.place)];
    if (!left.width || !left.height) return;
    scale = drawCurve(curve.svg, budgets, budget, left);
    drawProfile(profile.svg, budgets, budget, right);
    const told = spokenBudget(budgets, budget);
    curve.svg.setAttribute("aria-label", `Predicted time against memory; chosen: ${told}`);
    const { needed_nbytes: needed, peak_nbytes: peak } = budgets.points[budget];
    profile.svg.setAttribute("aria-label", `Arrays during a run; the peak is ${bytesText(peak)}`);
    const beside = `${bytesText(needed - peak)} more are beside them`;
    profile.caption.textContent = `Arrays during a run; ${beside}`;
  });
  const write = whenCalm(() => {
    list.replaceChildren(...againList(page));
    mark();
  }, LIST_PAUSE);
  curve.svg.addEventListener("click", (event) => {
    const place = event.clientX - curve.svg.getBoundingClientRect().left;
    if (scale) store.set({ budget: scale.nearest(place) });
  });
  new ResizeObserver(draw).observe(curve.place);
  store.subscribe(["tab"], draw);
  store.subscribe(["budget"], () => {
    draw();
    write();
  });
  const mark = () => {
    for (const row of list.querySelectorAll("tbody tr")) {
      const shown = row.querySelector(`[data-value-id="${store.state.selected}"]`);
      row.classList.toggle("selected", typeof store.state.selected === "number" && shown !== null);
    }
  };
  store.subscribe(["selected"], mark);
  write();
  return element(
    "div",
    { class: "budget-view" },
    createBudgetSlider(page),
    element("div", { class: "budget-charts" }, curve.view, profile.view),
    list,
  );
}

function budgetChart(title) {
  const svg = vector("svg", { class: "memory", role: "img", "aria-label": title });
  const place = element("div", { class: "chart" }, svg);
  const caption = element("figcaption", { class: "muted" }, title);
  return { svg, place, caption, view: element("figure", {}, caption, place) };
}

/** From the least bytes, at the left, to those of the plan of the page. */
function createBudgetSlider(page) {
  const { budgets, store } = page;
  const last = budgets.points.length - 1;
  const slider = /** @type {HTMLInputElement} */ (
    element("input", {
      type: "range",
      id: "budget-slider",
      min: 0,
      max: last,
      disabled: last === 0,
    })
  );
  const text = element("output", { id: "budget-text", for: "budget-slider" });
  const go = oncePerFrame(() => store.set({ budget: last - Number(slider.value) }));
  slider.addEventListener("input", go);
  const write = () => {
    const { budget } = store.state;
    slider.value = String(last - budget);
    text.textContent = budgetText(budgets, budget);
    slider.setAttribute("aria-valuetext", spokenBudget(budgets, budget));
  };
  store.subscribe(["budget"], write);
  write();
  return element(
    "div",
    { class: "budget-bar", role: "group", "aria-label": "Budget" },
    element("label", { for: "budget-slider" }, "Budget"),
    slider,
    text,
  );
}

function againList(page) {
  const { budgets, store } = page;
  const { budget } = store.state;
  const point = budgets.points[budget];
  const rows = budgets.rowsAt(budget);
  const amount = `memory=${point.needed_nbytes}`;
  const head = element(
    "div",
    { class: "again-head" },
    element("h2", {}, sentenceOf(againText(budgets, budget))),
    budget > 0 &&
      element("span", { class: "path" }, element("code", {}, amount), copyButton(amount)),
  );
  const note = noteOf(budgets, budget);
  const foot = note && element("p", { class: "muted" }, note);
  if (!rows.length) return foot ? [head, foot] : [head];
  const titles = ["value", "from", "time", "frees"];
  const heads = titles.map((name) => element("th", { scope: "col" }, name));
  const table = element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows.slice(0, ROWS_LISTED).map((row) => againRow(page, row))),
  );
  const rest = rows.length - ROWS_LISTED;
  return [
    head,
    element(
      "div",
      { class: "scroller", tabindex: 0, role: "region", "aria-label": "What is computed again" },
      table,
      rest > 0 &&
        element("p", { class: "muted" }, `and ${counted(rest, "more row")} that free less`),
      foot,
    ),
  ];
}

function sentenceOf(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** What there is to say beside what is listed; "" for nothing. */
function noteOf(budgets, budget) {
  const { points } = budgets;
  const last = points.length - 1;
  if (!last) return "No plan was found that needs less memory.";
  if (points[budget].in_loops)
    return "Loops keep fewer states, and compute the others again, segment by segment.";
  if (budget) return budgets.rowsAt(budget).length ? "" : "The same operations in another order.";
  const [least, most] = apart(points[last].needed_nbytes, points[0].needed_nbytes);
  return `The least that was found is ${least} of ${most}: move the slider to see how.`;
}

function againRow(page, row) {
  const times = row.times > 1 && element("small", { title: "times" }, `×${countText(row.times)}`);
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, element("div", {}, ...againNames(page, row), times)),
    ...sourcesAndTime(page, row),
    element("td", { class: "number" }, bytesText(row.nbytes)),
  );
}

/** Two cells, or a wide one where the values take no time of their own. */
function sourcesAndTime(page, row) {
  const { nanoseconds } = row;
  if (!nanoseconds && !row.sources.length && !row.from_parts)
    return [element("td", { class: "muted", colspan: 2 }, "on the way to others")];
  return [
    element("td", {}, againSources(page, row)),
    element("td", { class: "number" }, nanoseconds ? timeText(nanoseconds) : "–"),
  ];
}

/** The values, or those of which parts without names are computed again. */
function againNames(page, row) {
  const button = (attributes, ...words) =>
    element("button", { type: "button", class: "value-name", ...attributes }, ...words);
  const letters = row.parts_of.length ? PART_LETTERS : NAME_LETTERS;
  const named = (id) => {
    const value = page.model.values[id];
    const attributes = { "data-value-id": id, title: value.name };
    const label = [swatch(value.kind), valueLabel(page, id, letters)];
    return button({ ...attributes, click: () => page.actions.reveal(id) }, ...label);
  };
  const parts = row.parts_of.length ? [element("span", { class: "muted" }, "part of")] : [];
  const found = [...row.values.map(named), ...parts, ...row.parts_of.map(named)];
  return row.label ? [...found, element("span", {}, row.label)] : found;
}

/** As many as there is room for, and how many more there are. */
function againSources({ model }, { sources, from_parts: fromParts }) {
  const own = fromParts ? ["parts of it"] : [];
  const short = sources.map((id) => shortened(labelText(model.values[id]), SOURCE_LETTERS));
  const all = [...short, ...own];
  if (!all.length) return element("span", { class: "muted" }, "–");
  let count = 1;
  while (count < all.length && all.slice(0, count + 1).join(", ").length <= SOURCES_LETTERS)
    count += 1;
  const rest = all.length - count;
  const words = all.slice(0, count).join(", ") + (rest ? ` +${countText(rest)}` : "");
  return element(
    "span",
    { title: [...sources.map((id) => model.values[id].name), ...own].join(", ") },
    words,
  );
}
