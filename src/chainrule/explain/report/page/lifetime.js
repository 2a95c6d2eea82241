// From when to when a value is in memory, and the cursor in between.

import { makerChips, oneText, stepChip, valueChip, withMark } from "./chips.js";
import { element, vector } from "./dom.js";
import { countText } from "./words.js";

/**
 * @param {import("./chips.js").Page} page
 * @param {number} id
 * @returns {HTMLElement}
 */
export function lifetime(page, id) {
  const { model } = page;
  const made = model.madeBy[id];
  const freed = model.freedBy[id];
  const words = element("span", {}, made ? "Made at " : "There from the start");
  if (made) words.append(...makerChips(page, id));
  if (!page.data.memory) return element("p", {}, words, ".");
  const { stored, view_of: whole } = model.values[id];
  const begun = model.values[id].life?.first ?? 0;
  if (made && begun && model.stepAt(begun) > model.together(made)[1])
    words.append(", done during ", stepChip(page, model.stepAt(begun))); // its instruction is late
  if (stored && made && model.values[id].life?.first === 0)
    words.append(", in an array from outside that is there from the start");
  if (!stored && !whole) words.append(", never stored.");
  else if (freed === Infinity) words.append(", kept to the end.");
  else words.append(...neededLast(page, id, freed));
  const { life } = model.values[id];
  return element("div", {}, element("p", {}, words), life && lifeBar(page, id, life));
}

/** At which step a value is read last; where that part of the step is late, during which it is. */
function neededLast(page, id, freed) {
  const { life } = page.model.values[id];
  const reader = (life?.reader ?? freed - 1) + 1;
  const chip = stepChip(page, Math.min(reader, freed));
  if (reader >= freed) return [", needed last at ", withMark(chip, ","), " then freed."];
  if (life && !life.to_end) {
    const after = [" its memory is freed after ", withMark(stepChip(page, freed), ","), " with "];
    const other =
      life.longer === null
        ? document.createTextNode(`the rest of ${page.model.values[id].view_of}`)
        : valueChip(page, life.longer);
    return [", needed last at ", withMark(chip, ";"), ...after, withMark(other, ".")];
  }
  if (page.model.together(freed)[0] <= reader) {
    const after = [" freed after ", withMark(stepChip(page, freed), ":"), ` ${oneText(page, freed)}.`];
    return [", needed last at ", withMark(chip, ","), ...after];
  }
  const late = [" a part of which is done during ", withMark(stepChip(page, freed), ","), " then freed."];
  return [", needed last at ", withMark(chip, ","), ...late];
}

/** Over the time of the run, as the chart of the memory is. */
function lifeBar({ data, model, store }, id, { first, last }) {
  const count = data.memory.live.length;
  const [from, to] = [first, last].map((one) => countText(model.stepAt(one)));
  const bar = vector(
    "svg",
    {
      class: "life",
      viewBox: `0 0 ${count} 10`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Alive from step ${from} to ${to} of ${countText(model.steps.length)}`,
    },
    vector("rect", { class: "life-all", x: 0, y: 3, width: count, height: 4 }),
    vector("rect", {
      class: "life-alive",
      "data-kind": model.values[id].kind,
      x: first,
      y: 1,
      width: Math.max(Math.min(last + 1, count) - first, count / 150),
      height: 8,
    }),
  );
  const step = model.step(store.state.cursor);
  if (step) {
    const width = Math.max(count / 200, 0.02);
    const x = step.fullest_instruction + 0.5;
    bar.append(vector("rect", { class: "life-cursor", x, y: 0, width, height: 10 }));
  }
  return bar;
}
