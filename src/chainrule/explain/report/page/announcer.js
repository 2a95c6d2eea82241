// A line that screen readers speak when the step or the selection changes.

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
  const speak = () => {
    const parts = [];
    if (stepped) parts.push(`Step ${stepText(page, page.store.state.cursor)}`);
    const { selected } = page.store.state;
    if (selected === null) parts.push(stepped ? "" : "Nothing selected");
    else parts.push(`Selected ${selectionText(page, selected)}`);
    stepped = false;
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
