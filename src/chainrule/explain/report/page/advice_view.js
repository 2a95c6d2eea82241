// The tab Advice: ways to train and sizes of batches, each as pictures and a table.

import { element } from "./dom.js";

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createAdvice({ data: { advice } }) {
  return element("div", { class: "advice-view", tabindex: 0 }, ...advice.map(adviceSection));
}

function adviceSection(one) {
  const pictures = one.pictures.map(({ svg, words }) =>
    element("img", { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: words }),
  );
  return element(
    "section",
    {},
    element("h3", {}, one.title),
    ...pictures,
    adviceTable(one),
    ...one.notes.map((note) => element("p", {}, note)),
  );
}

function adviceTable({ head, rows, numbers, chosen }) {
  const kind = (place) => (numbers.includes(place) ? { class: "number" } : {});
  const heads = head.map((name, place) => element("th", { scope: "col", ...kind(place) }, name));
  const lines = rows.map((row, number) =>
    element(
      "tr",
      number === chosen ? { class: "chosen" } : {},
      element("th", { scope: "row", ...kind(0) }, row[0]),
      ...row.slice(1).map((cell, place) => element("td", kind(place + 1), cell)),
    ),
  );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...lines),
  );
}
