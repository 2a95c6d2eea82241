// Step buttons and slider: where in the order of computation the page is.

import { stepTitle } from "./chips.js";
import { element, oncePerFrame } from "./dom.js";
import { bytesText, countText } from "./words.js";

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createStepper(page) {
  const { model, store, actions } = page;
  const count = model.steps.length;
  const button = (id, text, label, by) => {
    const attributes = { type: "button", id, "aria-label": label, title: label };
    return element("button", { ...attributes, click: () => actions.stepBy(by) }, text);
  };
  const back = button("step-back", "◀", "One step back (,)", -1);
  const next = button("step-next", "▶", "One step on (.)", 1);
  const slider = /** @type {HTMLInputElement} */ (
    element("input", { type: "range", id: "step-slider", min: 0, max: count, "aria-label": "Step" })
  );
  const text = element("output", { id: "step-text", for: "step-slider" });
  const go = oncePerFrame(() => actions.goTo(Number(slider.value)));
  slider.addEventListener("input", go);
  const write = () => {
    const { cursor } = store.state;
    slider.value = String(cursor);
    const told = stepText(page, cursor);
    text.textContent = told;
    text.title = told;
    slider.setAttribute("aria-valuetext", told);
    back.toggleAttribute("disabled", cursor === 0);
    next.toggleAttribute("disabled", cursor === count);
  };
  store.subscribe(["cursor"], write);
  write();
  return element(
    "div",
    { class: "stepper", role: "group", "aria-label": "Steps" },
    back,
    slider,
    next,
    text,
  );
}

/**
 * `9/12 ∂J/∂z (backward of h) · live 36 KiB`; before the first step, what there is to step through.
 * @param {import("./chips.js").Page} page
 * @param {number} cursor
 * @returns {string}
 */
export function stepText(page, cursor) {
  const { model, data } = page;
  const step = model.step(cursor);
  const count = countText(model.steps.length);
  if (!step) {
    const peak = data.memory ? ` · peak ${bytesText(data.memory.peak_nbytes)}` : "";
    return `all ${count} steps${peak}`;
  }
  const isPeak = data.memory && step.fullest_instruction === data.memory.peak_instruction;
  const nbytes = isPeak ? data.memory.peak_nbytes : step.live_nbytes; // as the list beside the chart
  const live = nbytes === null ? "" : ` · live ${bytesText(nbytes)}`;
  return `${countText(cursor)}/${count} ${stepTitle(page, cursor)}${live}`;
}
