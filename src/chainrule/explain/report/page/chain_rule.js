// The chain rule of a gradient: one term for each consumer, with how much it contributes.

import { labelText, stepChip, valueChip } from "./chips.js";
import { element } from "./dom.js";
import { equationBlock, fitEquation } from "./equations.js";
import { asNumber, countText, numberText, percentText } from "./words.js";

const TERMS_AT_ONCE = 10;

/**
 * @param {import("./chips.js").Page} page
 * @param {number} id of a gradient
 * @returns {HTMLElement}
 */
export function chainRule(page, id) {
  const { chain } = page.model.values[id];
  const name = labelText(page.model.values[id]);
  const some = chain.length > TERMS_AT_ONCE;
  const terms = some ? [...chain].sort((one, other) => sizeOf(other) - sizeOf(one)) : chain;
  const said = `${name} is the sum of ${countText(chain.length)} terms, one for each use`;
  const told = element("p", { class: "muted" }, `${said}${some ? ", the largest first" : ""}:`);
  const view = element("div", { class: "chain" }, chain.length > 1 && told);
  addTerms(page, view, terms);
  return view;
}

function sizeOf({ norm }) {
  return asNumber(norm) ?? 0;
}

/** Some terms, and a button that shows more of them. */
function addTerms(page, view, terms) {
  const shown = terms.slice(0, TERMS_AT_ONCE).map((term) => chainTerm(page, term));
  const rest = terms.slice(TERMS_AT_ONCE);
  view.append(...shown);
  for (const one of shown) fitEquation(one.querySelector(".equation"));
  if (!rest.length) return;
  const text = `show more: ${countText(rest.length)} are left`;
  const more = element("button", { type: "button", class: "quiet" }, text);
  more.addEventListener("click", () => {
    more.remove();
    addTerms(page, view, rest);
  });
  view.append(more);
}

function chainTerm(page, term) {
  const formula = equationBlock(term.latex ? [term.latex] : [], "(no formula)");
  const facts = element("div", { class: "term-facts" });
  if (term.consumer !== null) facts.append("through ", valueChip(page, term.consumer));
  if (term.upstream !== null) facts.append(" from ", valueChip(page, term.upstream));
  if (term.step !== null) facts.append(" at ", stepChip(page, term.step + 1));
  return element("div", { class: "term" }, formula, facts, ...shareLine(term));
}

/** How large a term is, beside a bar of its share. */
function shareLine({ norm, share }) {
  if (norm === null) return [];
  const part = element("span", { class: "share-part" });
  part.style.width = `${100 * (Number(share) || 0)}%`;
  const told = share === null ? "" : ` · ${percentText(Number(share) || 0)}`;
  const bar = element("span", { class: "share", "aria-hidden": "true" }, part);
  return [element("div", { class: "share-line" }, bar, `norm ${numberText(norm)}${told}`)];
}
