// What the colours of the boxes say: a list to choose from.

import { element } from "./dom.js";
import { colourChoices } from "./quantities.js";

/**
 * @param {import("./chips.js").Page} page
 * @param {string|null} id of the list
 * @returns {HTMLElement}
 */
export function colourSelect({ data, store }, id) {
  const select = /** @type {HTMLSelectElement} */ (
    element(
      "select",
      { id, change: () => store.set({ colour: select.value }) },
      ...colourChoices(data).map(([key, text]) => element("option", { value: key }, text)),
    )
  );
  const write = () => (select.value = store.state.colour);
  store.subscribe(["colour"], write);
  write();
  return element("label", { class: "colour-label" }, "colour by ", select);
}
