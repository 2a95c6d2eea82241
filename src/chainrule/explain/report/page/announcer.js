// A line that screen readers speak when the step, the budget or the selection changes.

import { spokenBudget } from "./budgets.js";
import { element } from "./dom.js";
import { stepText } from "./stepper.js";
import { kindText, typeText } from "./words.js";

const WAIT_MILLISECONDS = 250;

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createAnnouncer(page) {
  const line = element("div", {
    id: "announcer",
    class: "out-of-sight",
    role: "status",
    "aria-live": "polite",
  });
  let timer = 0;
  let stepped = false;
  let weighed = false;
  const speak = () => {
    const parts = [];
    if (stepped) parts.push(`Step ${stepText(page, page.store.state.cursor)}`);
    const { budget, selected } = page.store.state;
    if (weighed && page.budgets) parts.push(`Budget ${spokenBudget(page.budgets, budget)}`);
    else if (selected !== null) parts.push(`Selected ${selectionText(page, selected)}`);
    else if (!stepped) parts.push("Nothing selected");
    stepped = weighed = false;
    line.textContent = parts.filter(Boolean).join(". ");
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(speak, WAIT_MILLISECONDS);
  };
  page.store.subscribe(["cursor"], () => {
    stepped = true;
    soon();
  });
  page.store.subscribe(["budget"], () => {
    weighed = true;
    soon();
  });
  page.store.subscribe(["selected"], soon);
  return line;
}

function selectionText(page, selected) {
  if (typeof selected === "number") {
    const value = page.model.values[selected];
    return `${value.name}, ${kindText(value.kind)}, ${typeText(value)}`;
  }
  const branch = page.scopes.branches.get(page.scopes.bare(selected));
  if (!branch)
    return page.data.drawing.items[page.scopes.numberOf.get(selected) ?? -1]?.tip ?? selected;
  const open = page.store.state.open.has(branch.key);
  return `${branch.title}, scope, ${open ? "unfolded" : "folded"}`;
}
