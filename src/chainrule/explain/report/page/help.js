// The dialog that lists what keys and pointer do.

import { element } from "./dom.js";

const KEYS = [
  [["."], "one step on"],
  [[","], "one step back"],
  [["←", "→", "↑", "↓"], "to the next box in that direction (in the graph)"],
  [["Enter"], "unfold or fold the selected scope (in the graph)"],
  [["g"], "from a value to its gradient, and back"],
  [["+", "−"], "zoom in, zoom out"],
  [["f"], "fit the whole graph"],
  [["/"], "find a value"],
  [["?"], "this help"],
  [["Esc"], "close, or select nothing"],
];
const POINTER = [
  ["drag", "moves the graph; a drag that begins on a text selects it"],
  ["wheel, pinch", "zooms"],
  ["double click", "unfolds or folds a scope"],
  ["click in the memory chart", "goes to that step"],
];
const READING = [
  ["squares", "variables"],
  ["circles", "operators; with a prime, their derivatives"],
  ["thick outline", "parameters and their gradients"],
  ["dashed, small", "a value that the forward pass keeps for the backward pass"],
  ["faded", "not computed yet at this step; half faded: some of its terms are"],
  ["dashed outline", "freed before this step"],
  ["thick ring", "computed in this step"],
  ["step 9", "the place in the order of execution, as at the circles"],
];

const BUDGETS = [["dashed, ↻", "computed again within the budget that the tab Budget chooses"]];

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLDialogElement}
 */
export function createHelp({ budgets }) {
  const reading = budgets ? [...READING, ...BUDGETS] : READING;
  const close = element("button", { type: "button", click: () => dialog.close() }, "Close");
  const dialog = /** @type {HTMLDialogElement} */ (
    element(
      "dialog",
      { id: "help-dialog", "aria-labelledby": "help-title" },
      element("h2", { id: "help-title", tabindex: -1, autofocus: true }, "How to use this page"),
      element("h3", {}, "Keys"),
      element("dl", { class: "keys" }, ...KEYS.flatMap(([keys, told]) => keyRow(keys, told))),
      element("h3", {}, "Pointer"),
      element("dl", { class: "keys" }, ...POINTER.flatMap(([term, told]) => wordRow(term, told))),
      element("h3", {}, "The graph"),
      element("dl", { class: "keys" }, ...reading.flatMap(([term, told]) => wordRow(term, told))),
      close,
    )
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}

function keyRow(keys, told) {
  const shown = keys.map((key) => element("kbd", {}, key));
  return [element("dt", {}, ...shown), element("dd", {}, told)];
}

function wordRow(term, told) {
  return [element("dt", {}, term), element("dd", {}, told)];
}
