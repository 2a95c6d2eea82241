// From when to when a value is in memory, and the cursor in between.

import { makerChips, stepChip } from "./chips.js";
import { element, vector } from "./dom.js";
import { countText } from "./words.js";

/**
 * @param {import("./chips.js").Page} page
 * @param {number} id
 * @returns {HTMLElement}
 */
export function lifetime(page, id) {
  const { model, store } = page;
  const made = model.madeBy[id];
  const freed = model.freedBy[id];
  const count = model.steps.length;
  const words = element("span", {}, made ? "Made at " : "There from the start");
  if (made) words.append(...makerChips(page, id));
  if (!page.data.memory) return element("p", {}, words, ".");
  const { stored, view_of: whole } = model.values[id];
  if (!stored && !whole) words.append(", never stored.");
  else if (freed === Infinity) words.append(", kept to the end.");
  else words.append(", needed last at ", stepChip(page, freed), ", then freed.");
  const from = Math.max(made - 1, 0);
  const to = Math.min(freed, count);
  const bar = vector(
    "svg",
    {
      class: "life",
      viewBox: `0 0 ${count} 10`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Alive from step ${countText(Math.max(made, 1))} to ${countText(to)} of ${countText(count)}`,
    },
    vector("rect", { class: "life-all", x: 0, y: 3, width: count, height: 4 }),
    vector("rect", {
      class: "life-alive",
      "data-kind": model.values[id].kind,
      x: from,
      y: 1,
      width: Math.max(to - from, count / 150),
      height: 8,
    }),
  );
  const cursor = store.state.cursor;
  if (cursor) {
    const width = Math.max(count / 200, 0.02);
    bar.append(vector("rect", { class: "life-cursor", x: cursor - 0.5, y: 0, width, height: 10 }));
  }
  return element("div", {}, element("p", {}, words), bar);
}
