// The top of the page: what is shown, the facts, steps, colours, find, fit, theme, help.

import { element } from "./dom.js";
import { createFind } from "./find.js";
import { colourChoices } from "./quantities.js";
import { createStepper } from "./stepper.js";
import { createThemeButton } from "./themes.js";

/**
 * @param {import("./chips.js").Page} page
 * @param {{fit: function(): void, help: function(): void, outline: function(): void}} commands
 * @returns {HTMLElement}
 */
export function createHeader(page, commands) {
  const { data } = page;
  const button = (id, text, title, click) =>
    element("button", { type: "button", id, title, click }, text);
  return element(
    "header",
    { class: "page-head" },
    element(
      "div",
      { class: "head-row" },
      button("outline-button", "Outline", "Show or hide the outline", commands.outline),
      element(
        "div",
        { class: "titles" },
        element("h1", { title: data.title }, data.title),
        element("p", { class: "muted", title: data.subtitle }, data.subtitle),
      ),
      element(
        "div",
        { class: "tools" },
        colourSelect(page),
        createFind(page),
        button("fit", "Fit", "Fit the whole graph (f)", commands.fit),
        createThemeButton(page.store),
        button("help", "?", "Keys and signs (?)", commands.help),
      ),
    ),
    element("div", { class: "head-row second" }, createStepper(page), factList(data.facts)),
  );
}

function colourSelect(page) {
  const select = /** @type {HTMLSelectElement} */ (
    element(
      "select",
      { id: "colour", change: () => page.store.set({ colour: select.value }) },
      ...colourChoices(page.data).map(([key, text]) => element("option", { value: key }, text)),
    )
  );
  const write = () => (select.value = page.store.state.colour);
  page.store.subscribe(["colour"], write);
  write();
  return element("label", { class: "colour-label" }, "colour by ", select);
}

/**
 * What is worth knowing first: parameters, peaks, operations.
 * @param {[string, string][]} facts
 * @returns {HTMLElement}
 */
export function factList(facts) {
  const pairs = facts.map(([label, text]) =>
    element("div", {}, element("dt", {}, label), element("dd", {}, text)),
  );
  return element("dl", { class: "facts" }, ...pairs);
}
