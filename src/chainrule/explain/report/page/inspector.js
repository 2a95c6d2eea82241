// The right side: everything about what is selected, or about the whole where nothing is.

import { element, whenCalm } from "./dom.js";
import { factList } from "./header.js";
import { inspectBox, inspectScope } from "./inspect_scope.js";
import { inspectValue, section } from "./inspect_value.js";
import { valueChip, valueChips } from "./chips.js";
import { fitEquation, forgetFit } from "./equations.js";
import { goToLoop, isLoopAsked } from "./inspect_iterations.js";
import { restTold, unnamedValue } from "./memory_rows.js";
import { aliveAt } from "./memory_stack.js";
import { asNumber, bytesText, counted, kindText, numberText } from "./words.js";

const PAUSE_MILLISECONDS = 120;
const LARGEST_SHOWN_FIRST = 5;
const GRADIENTS_SHOWN = 8;
const MOST_LISTED = 5;

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createInspector(page) {
  const content = element("div", { class: "inspected" });
  const close = element(
    "button",
    {
      type: "button",
      class: "close quiet",
      "aria-label": "Close",
      click: () => page.actions.select(null), // also closes what is shown of the whole
    },
    "✕",
  );
  const view = element(
    "aside",
    { id: "inspector", role: "region", "aria-label": "Inspector", tabindex: 0 },
    close,
    content,
  );
  let shown;
  let toldFor = null; // what was selected when the notes were shown that one page shows once
  const draw = () => {
    const { selected, asked } = page.store.state;
    content.replaceChildren(...inspected(page, selected));
    const notes = [...content.querySelectorAll(".told-once")];
    toldFor ??= notes.length ? { selected } : null;
    for (const again of notes.slice(toldFor?.selected === selected ? 1 : 0)) again.remove();
    for (const formula of content.querySelectorAll(".equation")) fitEquation(formula);
    if (shown !== selected) view.scrollTop = 0;
    shown = selected;
    const turns = content.querySelector(".iterations") ?? content.querySelector(".loop-told");
    if (isLoopAsked()) turns?.scrollIntoView({ block: "center" });
    document.body.classList.toggle("something-selected", selected !== null);
    document.body.classList.toggle("sheet-open", asked);
  };
  page.store.subscribe(
    ["selected", "part", "asked", "cursor", "open", "budget"],
    whenCalm(draw, PAUSE_MILLISECONDS),
  );
  const refit = () => content.querySelectorAll(".equation").forEach((one) => fitEquation(one));
  new ResizeObserver(refit).observe(view);
  document.fonts?.addEventListener("loadingdone", () => {
    content.querySelectorAll(".equation").forEach(forgetFit);
    refit();
  });
  draw();
  return view;
}

function inspected(page, selected) {
  if (typeof selected === "number") return inspectValue(page, selected);
  if (selected === null) return inspectWhole(page);
  const scope = page.scopes.bare(selected);
  return page.scopes.branches.has(scope) ? inspectScope(page, scope) : inspectBox(page, selected);
}

function inspectWhole(page) {
  const { data, model } = page;
  const found = [
    element("h2", {}, data.title),
    element("p", { class: "muted" }, data.subtitle),
    factList(data.facts),
  ];
  const outputs = model.values.flatMap((value, id) =>
    value.kind === "parameter-gradient" ? [id] : [],
  );
  if (data.memory) {
    const told = `Largest at the peak of ${bytesText(data.memory.peak_nbytes)}`;
    found.push(section(told, ...largestAtPeak(page)));
  }
  if (outputs.length) found.push(section("Gradients of parameters", ...gradientRows(page, outputs)));
  const dead = model.values.flatMap((value, id) => (value.dead ? [id] : []));
  if (dead.length) found.push(section("Dead units", ...listOf(page, dead, deadShare)));
  const loops = model.values.flatMap(({ iterations }, id) => (iterations ? [id] : []));
  if (loops.length) {
    found.push(section("Loops, iteration by iteration", ...listOf(page, loops, turnsButton)));
  }
  if (data.notes.length) {
    found.push(section("Notes", ...data.notes.map((note) => element("p", {}, note))));
  }
  const hint =
    "Click a box to see everything about it: its equation, numbers, memory, why its gradient is 0. The keys . and , step through the computation; ? lists all keys.";
  found.push(element("p", { class: "muted hint" }, hint));
  return found;
}

/** The gradients, the one with the largest norm first, where there are numbers. */
function gradientRows(page, ids) {
  const norm = (id) => asNumber(page.model.values[id].stats?.norm);
  if (!ids.some((id) => page.model.values[id].stats)) return [valueChips(page, ids, GRADIENTS_SHOWN)];
  const sorted = [...ids].sort((one, other) => norm(other) - norm(one));
  const rest = ids.length - GRADIENTS_SHOWN;
  const rows = sorted.slice(0, GRADIENTS_SHOWN).map((id) => {
    const text = `norm ${numberText(page.model.values[id].stats?.norm)}`;
    return element("div", { class: "pair" }, valueChip(page, id), element("span", {}, text));
  });
  const largest = largestGradient(page, norm);
  if (largest !== null && norm(largest) > norm(sorted[0])) {
    const text = `norm ${numberText(norm(largest))}`;
    const what = element("span", {}, "largest of all: ", valueChip(page, largest));
    rows.push(element("div", { class: "pair" }, what, element("span", {}, text)));
  }
  return rest > 0 ? [...rows, allGradients(page, rest)] : rows;
}

/** The gradient with the largest norm, of a parameter or not; null where none has one. */
function largestGradient({ model }, norm) {
  const all = model.values.flatMap(({ kind }, id) => (/gradient$/.test(kind) ? [id] : []));
  return all.reduce((most, id) => (most === null || norm(id) > norm(most) ? id : most), null);
}

/** A button that lists all gradients of parameters in the table of values, by their norms. */
function allGradients({ store }, rest) {
  const listed = () => ({ words: kindText("parameter-gradient"), by: "norm" });
  const click = () => store.set({ tab: "values", listed: listed(), asked: false });
  const title = "List them in the table of values";
  return element("button", { type: "button", class: "quiet", title, click }, `and ${rest} with smaller norms`);
}

/** Values with a few words about each. */
function listOf(page, ids, words) {
  const rows = ids.slice(0, MOST_LISTED).map((id) => {
    const told = element("span", {}, words(page.model.values[id], page, id));
    return element("div", { class: "pair told" }, valueChip(page, id), told);
  });
  const rest = ids.length - MOST_LISTED;
  return rest > 0 ? [...rows, element("p", { class: "muted" }, `and ${rest} more`)] : rows;
}

/** `1 of 16` of "h: 1 of 16 units is dead, ...". */
function deadShare({ dead }) {
  return dead.match(/[\d,]+ of [\d,]+/)?.[0] ?? "";
}

/** A button that goes to the table of what a loop computes at each t. */
function turnsButton({ loop, iterations }, page, id) {
  const count = typeof loop.length === "number" ? loop.length : iterations.at.length;
  const text = `${counted(count, "iteration")} of ${loop.bodies.join(", ")}`;
  const click = () => goToLoop(page, id);
  return element("button", { type: "button", class: "quiet told-button", click }, text);
}

/** A button that goes to where an unnamed value is, and leaves the cursor. */
function unnamedChip({ go, text, told }) {
  return element("button", { class: "chip plain", type: "button", title: told, click: go }, text);
}

function largestAtPeak(page) {
  const { memory } = page.data;
  const rows = aliveAt(memory, memory.peak_instruction);
  return rows.slice(0, LARGEST_SHOWN_FIRST).map((row) => {
    const unnamed = row.value === null ? unnamedValue(page, row) : null;
    const rest = element("span", { title: restTold(row) }, row.label);
    const named = row.value === null ? rest : valueChip(page, row.value);
    const what = unnamed ? unnamedChip(unnamed) : named;
    return element("div", { class: "pair" }, what, element("span", {}, bytesText(row.nbytes)));
  });
}
