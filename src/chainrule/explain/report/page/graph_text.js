// Labels of the graph as the static drawing sets them: faces, raised and lowered runs, fractions.

import { vector } from "./dom.js";

const SMALL = 0.7;
const FACES = { italic: "i", bold: "b" };
const SHIFTS = { 0: 0, 1: -0.36, "-1": 0.2 };
const DIGITS = 10;

/**
 * One line in the middle, or two with a bar between them.
 * @param {number} x of the middle
 * @param {number} y of the middle
 * @param {{size: number, width: number, lines: [string, string, number][][]}} label
 * @returns {SVGElement[]}
 */
export function labelShapes(x, y, label) {
  const { size, width, lines } = label;
  if (lines.length === 1) return [textShape(x, y + 0.33 * size, lines[0], size)];
  const half = width / 2 + 2;
  return [
    textShape(x, y - 0.3 * size, lines[0], size),
    vector("path", { class: "bar", d: `M${rounded(x - half)} ${rounded(y)}H${rounded(x + half)}` }),
    textShape(x, y + 0.98 * size, lines[1], size),
  ];
}

function textShape(x, y, line, size) {
  let raised = 0;
  const pieces = line.map(([text, face, level]) => {
    const wanted = SHIFTS[level] * size;
    const attributes = {
      class: FACES[face] ?? null,
      dy: wanted === raised ? null : rounded(wanted - raised),
      "font-size": level ? rounded(size * SMALL) : null,
    };
    raised = wanted;
    return vector("tspan", attributes, text);
  });
  return vector("text", { x: rounded(x), y: rounded(y), "font-size": rounded(size) }, ...pieces);
}

/**
 * A coordinate, to a tenth of a pixel.
 * @param {number} number
 * @returns {number}
 */
export function rounded(number) {
  return Math.round(number * DIGITS) / DIGITS;
}
