// Equations that fit their box: on one line, or broken before signs, or smaller, or to be scrolled.

import { element } from "./dom.js";
import { mathematics } from "./mathematics.js";
import { counted } from "./words.js";

const MOST_LINES = 12;
const SMALLEST = 0.72; // of the usual size of letters
const SMALLER = 1.15; // wider than its box by so much, a line becomes smaller rather than broken
const AT_RELATIONS = [" = ", " \\in "];
const AT_SUMS = [...AT_RELATIONS, " + ", " - "];
const LONG_NUMBER = /\d+\.\d{8,}(?![\de])/g; // that was computed
const CHAIN_PRODUCT = /\\operatorname\{prod\}|\\mathrm\{prod\}/;
const PRODUCT_TOLD =
  "prod is the product of the chain rule: with the transposes and the order that the shapes ask for.";
const equationSources = new WeakMap(); // of each line, its LaTeX and text
const shownForms = new WeakMap(); // of each line, the LaTeX as it is broken now
const fittedWidths = new WeakMap(); // of each block, the width for which it was broken

/**
 * Lines of LaTeX in a box; `fitEquation` breaks them once the box is in the document.
 * @param {string[]} lines
 * @param {string} text shown where LaTeX cannot be
 * @returns {HTMLElement}
 */
export function equationBlock(lines, text) {
  const block = element("div", { class: "equation" });
  const shown = lines.length ? lines.slice(0, MOST_LINES).map(shortNumbers) : [null];
  shown.forEach((latex) => {
    const line = element("div", { class: "equation-line" }, mathematics(latex, text, true));
    if (latex) equationSources.set(line, { latex, text });
    shownForms.set(line, latex);
    block.append(line);
  });
  const rest = lines.length - MOST_LINES;
  if (rest > 0)
    block.append(element("div", { class: "muted" }, `and ${counted(rest, "line")} more`));
  if (shown.some((latex) => CHAIN_PRODUCT.test(latex ?? "")))
    block.append(element("div", { class: "muted told-once" }, PRODUCT_TOLD));
  return block;
}

/** Numbers as they stand elsewhere in the page, in four digits. */
function shortNumbers(latex) {
  return latex.replace(LONG_NUMBER, (digits) => String(Number(Number(digits).toPrecision(4))));
}

/**
 * Breaks each line of an equation that is too wide; what is too wide still becomes smaller, and
 * then can be scrolled, also by keys.
 * @param {HTMLElement} block
 */
export function fitEquation(block) {
  const width = block.clientWidth;
  if (!width || fittedWidths.get(block) === width) return;
  fittedWidths.set(block, width);
  block.style.fontSize = "";
  block.removeAttribute("tabindex");
  block.classList.remove("scrolls");
  for (const line of /** @type {HTMLElement[]} */ ([...block.children])) {
    const source = equationSources.get(line);
    if (source) breakLine(line, source);
  }
  const wanted = width / block.scrollWidth;
  if (!(wanted < 1)) return;
  block.style.fontSize = `${Math.max(wanted * 0.99, SMALLEST)}em`;
  if (block.scrollWidth <= width) return;
  block.classList.add("scrolls");
  block.tabIndex = 0;
}

/**
 * The next `fitEquation` starts anew: the letters have another width than before.
 * @param {HTMLElement} block
 */
export function forgetFit(block) {
  fittedWidths.delete(block);
}

function breakLine(line, { latex, text }) {
  const forms = [
    { wanted: latex, room: 1 },
    { wanted: brokenLatex(latex, AT_RELATIONS), room: SMALLER },
    { wanted: brokenLatex(latex, AT_SUMS), room: 1 },
  ];
  for (const { wanted, room } of forms) {
    if (shownForms.get(line) !== wanted) line.replaceChildren(mathematics(wanted, text, true));
    shownForms.set(line, wanted);
    if (line.scrollWidth <= line.clientWidth * room + 1) return;
  }
}

/**
 * LaTeX over several lines, one for each sign that is in no braces or brackets: what is before the
 * first sign stays on the first line with what follows it, and so does what follows a space that
 * sets a condition apart (t = 1, …, n) on the last line.
 * @param {string} latex
 * @param {string[]} signs
 * @returns {string}
 */
export function brokenLatex(latex, signs) {
  const places = breakPlaces(latex, signs);
  if (!places.length) return latex;
  const ends = [...places.slice(1), latex.length];
  const first = latex.slice(0, places[0]);
  const rest = places.map((place, number) => latex.slice(place, ends[number]).trim());
  const [head, ...more] = rest;
  return `\\begin{aligned}${first} & ${head}${more.map((part) => `\\\\ & ${part}`).join("")}\\end{aligned}`;
}

function breakPlaces(latex, signs) {
  const found = [];
  let depth = 0;
  for (let at = 0; at < latex.length; at += 1) {
    const command =
      latex[at] === "\\" ? (/^\\(?:[a-zA-Z]+|.)/.exec(latex.slice(at))?.[0] ?? "\\") : "";
    if (depth === 0 && command === "\\quad") return found; // what follows is said of all of it
    if (depth === 0 && signs.some((sign) => latex.startsWith(sign, at))) found.push(at);
    if (command === "\\left" || command === "\\begin") depth += 1;
    else if (command === "\\right" || command === "\\end") depth -= 1;
    else if (!command && "{([".includes(latex[at])) depth += 1;
    else if (!command && "})]".includes(latex[at])) depth -= 1;
    if (!command) continue;
    const bracket = command === "\\left" || command === "\\right";
    at += command.length - 1 + (bracket ? delimiterLength(latex, at + command.length) : 0);
  }
  return found;
}

/** The bracket after \left or \right, which opens and closes nothing of its own. */
function delimiterLength(latex, from) {
  return /^\s*(?:\\(?:[a-zA-Z]+|.)|.)/.exec(latex.slice(from))?.[0].length ?? 0;
}
