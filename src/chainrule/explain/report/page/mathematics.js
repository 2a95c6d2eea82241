// LaTeX set by KaTeX, once for each formula; where that fails, the text form.

const SETTINGS = { throwOnError: false, strict: "ignore", trust: false, output: "htmlAndMathml" };
const LONGEST_LATEX = 4000; // beyond it, KaTeX takes seconds and nobody reads it
const LONGEST_TEXT = 700;
const setFormulas = new Map();

/**
 * A formula. `fallback` is shown where there is no KaTeX, no LaTeX, or LaTeX that it cannot read.
 * @param {string|null|undefined} latex
 * @param {string} fallback
 * @param {boolean} [display] large, as on a line of its own
 * @returns {HTMLElement}
 */
export function mathematics(latex, fallback, display = false) {
  const key = `${display} ${latex}`;
  let found = setFormulas.get(key);
  if (!found) {
    found = typeset(latex, display);
    if (found) setFormulas.set(key, found);
  }
  if (found) return /** @type {HTMLElement} */ (found.cloneNode(true));
  const plain = document.createElement("span");
  plain.className = "formula plain";
  const tooLong = fallback.length > LONGEST_TEXT;
  plain.textContent = tooLong ? `${fallback.slice(0, LONGEST_TEXT)} …` : fallback;
  return plain;
}

/**
 * LaTeX as high as a line: a fraction, such as a derivative, with a slash.
 * @param {string} latex
 * @returns {string}
 */
export function inlineLatex(latex) {
  const opening = "\\frac{";
  if (!latex.startsWith(opening)) return latex;
  const middle = closingBrace(latex, opening.length);
  if (latex[middle + 1] !== "{" || closingBrace(latex, middle + 2) !== latex.length - 1)
    return latex;
  return `${latex.slice(opening.length, middle)}/${latex.slice(middle + 2, -1)}`;
}

function closingBrace(text, from) {
  let depth = 1;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "{") depth += 1;
    else if (text[at] === "}") depth -= 1;
    if (!depth) return at;
  }
  return -1;
}

function typeset(latex, display) {
  const engine = globalThis.katex;
  if (!engine || !latex || latex.length > LONGEST_LATEX) return null;
  const into = document.createElement("span");
  into.className = "formula";
  try {
    engine.render(latex, into, { ...SETTINGS, displayMode: display });
  } catch {
    return null;
  }
  return into.querySelector(".katex-error") ? null : into;
}
