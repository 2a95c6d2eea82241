// Find: values and scopes by name, or by their line, and steps by number, the best first.

import { stepTitle, swatch } from "./chips.js";
import { element } from "./dom.js";
import { loopTitle } from "./inspect_loop.js";
import { goToLoop } from "./inspect_iterations.js";
import { countText, kindText, typeText } from "./words.js";

const MOST_RESULTS = 60;
const LEAST_OF_LINE = 2; // letters that are looked for in lines of the program
const OF_LINE = 4; // after every name
const INSIDE = 0.3; // of a loop: after the same outside

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createFind(page) {
  return new Find(page).view;
}

class Find {
  constructor(page) {
    this.page = page;
    this.found = [];
    this.at = -1;
    this.input = /** @type {HTMLInputElement} */ (
      element("input", {
        type: "search",
        id: "find",
        role: "combobox",
        placeholder: "find (/)",
        autocomplete: "off",
        spellcheck: "false",
        "aria-label": "Find a value, a scope, a line or a step",
        "aria-expanded": "false",
        "aria-controls": "find-results",
        "aria-autocomplete": "list",
        input: () => this.search(),
        focus: () => this.search(),
        keydown: (event) => this.#key(event),
        blur: () => setTimeout(() => document.activeElement !== this.input && this.close(), 150),
      })
    );
    this.list = element("div", {
      id: "find-results",
      role: "listbox",
      "aria-label": "Found",
      hidden: true,
    });
    this.view = element("div", { class: "find" }, this.input, this.list);
  }

  search() {
    const text = this.input.value.trim();
    this.found = text ? searched(this.page, text).slice(0, MOST_RESULTS) : [];
    this.at = this.found.length ? 0 : -1;
    this.list.replaceChildren(...this.found.map((one, place) => this.#option(one, place)));
    if (text && !this.found.length) {
      const none = element("div", { class: "nothing", role: "option", "aria-disabled": "true" });
      none.textContent = nothingFound(this.page, text);
      this.list.append(none);
    }
    this.list.hidden = !text;
    this.input.setAttribute("aria-expanded", String(Boolean(text)));
    this.#mark();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  #option({ thing, step, name, told, kind }, place) {
    const choose = (event) => {
      event.preventDefault();
      this.#choose(place);
    };
    return element(
      "div",
      {
        role: "option",
        id: `found-${place}`,
        "data-value-id": typeof thing === "number" ? thing : null,
        "data-step": step ?? null,
        pointerdown: choose,
      },
      swatch(kind),
      element("span", { class: "found-name" }, name),
      element("span", { class: "muted" }, told),
    );
  }

  #mark() {
    [...this.list.children].forEach((one, place) => {
      one.setAttribute("aria-selected", String(place === this.at));
    });
    if (this.at < 0) this.input.removeAttribute("aria-activedescendant");
    else this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
    this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
  }

  #choose(place) {
    const one = this.found[place];
    if (!one) return;
    this.input.value = "";
    this.close();
    this.input.blur();
    document.getElementById("graph")?.focus({ preventScroll: true });
    if (one.inside) goToLoop(this.page, one.thing, one.name);
    else if (one.step) this.page.actions.goTo(one.step);
    else this.page.actions.reveal(one.thing);
  }

  #key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves && this.found.length) {
      this.at = (this.at + moves[event.key] + this.found.length) % this.found.length;
      this.#mark();
    } else if (event.key === "Enter") this.#choose(this.at);
    else if (event.key === "Escape") {
      this.input.value = "";
      this.close();
      this.input.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/**
 * Values and scopes whose names have a text in them: the same name first, then those that begin
 * with it, then those with a part that begins with it; last the values in whose line it is
 * (functions and operators), and those of a line: `18`, `line 18`. What loops compute is found in
 * the same ways, after what is outside of them. Before all, the step of that
 * number: `18`, `#18`, `step 18`.
 * @param {import("./chips.js").Page} page
 * @param {string} text
 * @returns {{thing: number|string|null, step?: number, inside?: boolean, name: string,
 *   told: string, kind: string, rank: number}[]}
 */
export function searched(page, text) {
  const wanted = text.toLowerCase();
  const number = Number(/^(?:line )?(\d+)$/.exec(wanted)?.[1] ?? 0);
  const found = stepFound(page, wanted);
  const ofLine = (source) => {
    if (!source) return null;
    const line = (page.data.sources[source.file]?.lines[source.line] ?? "").trim();
    const isHere = source.line === number;
    const isLong = wanted.length >= LEAST_OF_LINE && !number; // not the digits of other numbers
    const has = isHere || (isLong && line.toLowerCase().includes(wanted));
    return has && line ? `line ${source.line}: ${line}` : null;
  };
  page.model.values.forEach((value, id) => {
    if (value.loop?.results[0] === id) found.push(...foundInside(value.loop, wanted, ofLine));
    const rank = Math.min(rankOf(value.name, wanted), rankOf(value.label, wanted) + 0.5);
    const line = rank < Infinity || value.of !== null ? null : ofLine(value.source);
    if (rank < Infinity) {
      const told = `${kindText(value.kind)} ${typeText(value)}`;
      found.push({ thing: id, name: value.name, told, kind: value.kind, rank });
    } else if (line) {
      found.push({ thing: id, name: value.name, told: line, kind: value.kind, rank: OF_LINE });
    }
  });
  for (const [key, branch] of page.scopes.branches) {
    const rank =
      branch.parent === null ? Infinity : rankOf(branch.data.path || branch.title, wanted);
    if (rank < Infinity) {
      const name = branch.data.path || branch.title;
      found.push({ thing: key, name, told: "scope", kind: "scope", rank: rank + 0.25 });
    }
  }
  return found.sort((one, other) => one.rank - other.rank || one.name.length - other.name.length);
}

/** Values that a loop computes in each iteration, by name or by line. */
function foundInside(loop, wanted, ofLine) {
  const where = loopTitle(loop).replace(/^./, (letter) => letter.toLowerCase());
  return loop.inside.flatMap(({ name, source }) => {
    const rank = rankOf(name, wanted) + INSIDE;
    const line = ofLine(source);
    const shown = name || loop.bodies[0];
    const one = { thing: loop.results[0], inside: true, name: shown, kind: "variable" };
    if (rank < Infinity) return [{ ...one, told: `in the ${where}`, rank }];
    return line ? [{ ...one, told: `${line} · in the ${where}`, rank: OF_LINE + INSIDE }] : [];
  });
}

/** The number of a step that a text asks for; null if it asks for something else. */
function stepAsked(wanted) {
  const number = /^(?:step\s*|#\s*)?(\d+)$/i.exec(wanted)?.[1];
  return number === undefined ? null : Number(number);
}

function stepFound(page, wanted) {
  const step = stepAsked(wanted);
  if (!page.model.step(step)) return [];
  const { kind } = page.model.values[page.model.valueOfStep(step)] ?? { kind: "scope" };
  const told = stepTitle(page, step);
  return [{ thing: null, step, name: `step ${countText(step)}`, told, kind, rank: -1 }];
}

function nothingFound({ model }, text) {
  const told = `no name and no line has ${text}`;
  const count = model.steps.length;
  const isStep = stepAsked(text) !== null && count > 0;
  return isStep ? `${told}; the steps are 1 to ${countText(count)}` : told;
}

function rankOf(name, wanted) {
  const text = name.toLowerCase();
  const at = text.indexOf(wanted);
  if (at < 0) return Infinity;
  if (text === wanted) return 0;
  if (at === 0) return 1;
  return /\w/.test(text[at - 1]) ? 3 : 2;
}
