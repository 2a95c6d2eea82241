// The user's own lines, the one that computed a value marked.

import { element } from "./dom.js";

/**
 * @param {any} data
 * @param {{file: number, line: number, column: [number, number]|null}} source
 * @returns {HTMLElement}
 */
export function sourceLines(data, source) {
  const { lines } = data.sources[source.file];
  const near = Object.keys(lines)
    .map(Number)
    .filter((line) => Math.abs(line - source.line) <= 2)
    .sort((a, b) => a - b);
  const indent = commonIndent(near.map((line) => lines[line]));
  const rows = near.map((line) => {
    const here = line === source.line;
    const text = lines[line].slice(indent);
    const column = here && source.column ? source.column.map((at) => at - indent) : null;
    return element(
      "div",
      { class: here ? "line here" : "line" },
      element("span", { class: "line-number" }, line),
      element("code", {}, ...(column ? underlined(text, column) : [text || " "])),
    );
  });
  return element("div", { class: "source" }, ...rows);
}

/**
 * `model.py:12`; "" where it is not known.
 * @param {any} data
 * @param {{file: number, line: number}|null} source
 * @returns {string}
 */
export function sourcePlace(data, source) {
  return source ? `${data.sources[source.file].file}:${source.line}` : "";
}

function commonIndent(lines) {
  const indents = lines.filter((line) => line.trim()).map((line) => line.search(/\S/));
  return indents.length ? Math.min(...indents) : 0;
}

function underlined(text, [start, end]) {
  const first = Math.max(start, 0);
  return [text.slice(0, first), element("mark", {}, text.slice(first, end)), text.slice(end)];
}
