// The top of the page: what is shown, the facts, steps, colours, find, fit, theme, help.

import { colourSelect } from "./colour_select.js";
import { element } from "./dom.js";
import { createFind } from "./find.js";
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
        element("h1", { title: data.title }, titleButton(page)),
        element("p", { class: "muted", title: data.subtitle }, data.subtitle),
      ),
      element(
        "div",
        { class: "tools" },
        colourSelect(page, "colour"),
        createFind(page),
        button("fit", "Fit", "Fit the whole graph (f)", commands.fit),
        createThemeButton(page.store),
        button("help", "?", "Keys and signs (?)", commands.help),
      ),
    ),
    element("div", { class: "head-row second" }, createStepper(page), factList(data.facts)),
  );
}

/** The title, which leads back to what the inspector says of the whole. */
function titleButton({ data, actions }) {
  const click = () => actions.select(null, true);
  return element("button", { type: "button", class: "title-button", click }, data.title);
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
