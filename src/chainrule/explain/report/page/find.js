// Find: values and scopes by name, or by their line, and steps by number, the best first.

import { stepTitle, swatch } from "./chips.js";
import { element } from "./dom.js";
import { countText, kindText, typeText } from "./words.js";

const MOST_RESULTS = 60;
const LEAST_OF_LINE = 2; // letters that are looked for in lines of the program
const OF_LINE = 4; // after every name

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
        blur: () => setTimeout(() => this.close(), 150),
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
    if (one.step) this.page.actions.goTo(one.step);
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

/** The line of the program in which a value is computed. */
function lineOf(data, { source }) {
  return source ? (data.sources[source.file]?.lines[source.line] ?? "").trim() : null;
}

/**
 * Values and scopes whose names have a text in them: the same name first, then those that begin
 * with it, then those with a part that begins with it; last the values in whose line it is
 * (functions and operators), and those of a line: `18`, `line 18`. Before all, the step of that
 * number: `18`, `#18`, `step 18`.
 * @param {import("./chips.js").Page} page
 * @param {string} text
 * @returns {{thing: number|string|null, step?: number, name: string, told: string, kind: string,
 *   rank: number}[]}
 */
export function searched(page, text) {
  const wanted = text.toLowerCase();
  const number = Number(/^(?:line )?(\d+)$/.exec(wanted)?.[1] ?? 0);
  const found = stepFound(page, wanted);
  page.model.values.forEach((value, id) => {
    const rank = Math.min(rankOf(value.name, wanted), rankOf(value.label, wanted) + 0.5);
    const isLine = number > 0 && value.source?.line === number;
    const isLong = wanted.length >= LEAST_OF_LINE && !number; // not the digits of other numbers
    const line = rank < Infinity || !(isLine || isLong) ? null : lineOf(page.data, value);
    if (rank < Infinity) {
      const told = `${kindText(value.kind)} ${typeText(value)}`;
      found.push({ thing: id, name: value.name, told, kind: value.kind, rank });
    } else if (value.of === null && line && (isLine || line.toLowerCase().includes(wanted))) {
      const told = `line ${value.source.line}: ${line}`;
      found.push({ thing: id, name: value.name, told, kind: value.kind, rank: OF_LINE });
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
