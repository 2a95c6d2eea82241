// The tree of scopes and values, unfolded as the graph is.

import { swatch, valueLabel } from "./chips.js";
import { element, oncePerFrame } from "./dom.js";
import { bytesText, countText } from "./words.js";

const ROW_PIXELS = 22;
const SPARE_TREE_ROWS = 8; // rows beyond those in sight
const PASS_TITLES = { forward: "Forward pass", update: "Update", tangent: "Tangents" };

/**
 * @typedef {Object} Row
 * @property {number|string} thing id of a value or key of a scope
 * @property {number} level
 * @property {number} place among its siblings, from 1
 * @property {number} count of its siblings
 * @property {boolean|null} expanded null where there is nothing inside
 */

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createOutline(page) {
  return new Outline(page).view;
}

class Outline {
  constructor(page) {
    this.page = page;
    this.shut = new Set();
    this.at = 0;
    this.tree = element("div", {
      role: "tree",
      id: "outline-tree",
      "aria-label": "Scopes and values",
    });
    this.view = element("nav", { id: "outline", "aria-label": "Outline" }, this.tree);
    this.view.addEventListener(
      "scroll",
      oncePerFrame(() => this.#show()),
      { passive: true },
    );
    new ResizeObserver(oncePerFrame(() => this.#show())).observe(this.view);
    this.tree.addEventListener("keydown", (event) => this.#key(event));
    this.tree.addEventListener("click", (event) => this.#click(event));
    const draw = oncePerFrame(() => this.draw());
    page.store.subscribe(["open"], draw);
    page.store.subscribe(
      ["cursor"],
      oncePerFrame(() => this.#show()),
    );
    const follow = oncePerFrame(() => {
      this.#followSelection();
      this.#show();
    });
    page.store.subscribe(["selected"], follow);
    this.draw();
  }

  /** All rows of what is unfolded, of which those in sight are made. */
  draw() {
    this.rows = this.#rows();
    this.at = Math.min(this.at, this.rows.length - 1);
    this.tree.style.height = `${this.rows.length * ROW_PIXELS}px`;
    this.#show();
  }

  #show() {
    const { scrollTop, clientHeight } = this.view;
    const first = Math.max(Math.floor(scrollTop / ROW_PIXELS) - SPARE_TREE_ROWS, 0);
    const last = Math.min(
      first + Math.ceil((clientHeight || 600) / ROW_PIXELS) + 2 * SPARE_TREE_ROWS,
      this.rows.length,
    );
    const numbers = Array.from({ length: last - first }, (_, place) => first + place);
    if (this.at < first || this.at >= last) numbers.push(this.at);
    const held = this.tree.contains(document.activeElement);
    this.tree.replaceChildren(...numbers.map((number) => this.#row(this.rows[number], number)));
    if (held) this.#line()?.focus({ preventScroll: true });
  }

  /** The element of the row that has the focus. */
  #line() {
    return /** @type {HTMLElement|null} */ (this.tree.querySelector(`[data-row="${this.at}"]`));
  }

  /** Brings the row with the focus into sight. */
  #bring() {
    const top = this.at * ROW_PIXELS;
    const { scrollTop, clientHeight } = this.view;
    if (top < scrollTop) this.view.scrollTop = top - ROW_PIXELS;
    else if (top > scrollTop + clientHeight - 2 * ROW_PIXELS) {
      this.view.scrollTop = top - clientHeight + 3 * ROW_PIXELS;
    }
  }

  #rows() {
    const { scopes } = this.page;
    const rows = [];
    const add = (thing, level, place, count) => {
      const inside = typeof thing === "string" ? this.#inside(thing) : [];
      const expanded = inside.length ? this.#isOpen(thing) : null;
      rows.push({ thing, level, place, count, expanded });
      if (expanded) inside.forEach((one, at) => add(one, level + 1, at + 1, inside.length));
    };
    const roots = scopes.roots.filter((root) => this.#inside(root).length);
    roots.forEach((root, at) => add(root, 1, at + 1, roots.length));
    return rows;
  }

  /** Scopes and values of a scope; circles have no row. */
  #inside(key) {
    const { scopes } = this.page;
    return scopes.branches
      .get(key)
      .inside.map((one) => (typeof one === "string" ? one : scopes.valueOf(one)))
      .filter((one) => one !== null);
  }

  #isOpen(key) {
    const whole = this.page.scopes.branches.get(key).parent === null;
    return whole ? !this.shut.has(key) : this.page.store.state.open.has(key);
  }

  #row(row, number) {
    const { state } = this.page.store;
    const attributes = {
      role: "treeitem",
      class: "outline-row",
      tabindex: number === this.at ? 0 : -1,
      "data-row": number,
      "aria-level": row.level,
      "aria-posinset": row.place,
      "aria-setsize": row.count,
      "aria-expanded": row.expanded === null ? null : String(row.expanded),
      "aria-selected": String(this.#isSelected(row)),
    };
    const made =
      typeof row.thing === "number" ? this.#value(row, attributes) : this.#scope(row, attributes);
    made.style.top = `${number * ROW_PIXELS}px`;
    made.style.paddingInlineStart = `${(row.level - 1) * 13 + 4}px`;
    if (this.#isSelected(row)) made.classList.add("selected");
    else if (this.#holds(row)) made.classList.add("holds");
    if (state.cursor && typeof row.thing === "number") {
      made.dataset.state = this.page.model.stateOf(row.thing, state.cursor);
    }
    return made;
  }

  #value(row, attributes) {
    const value = this.page.model.values[row.thing];
    attributes["data-value-id"] = row.thing;
    const name = element("span", { class: "outline-name", title: value.name });
    name.append(
      swatch(value.kind),
      valueLabel(this.page, row.thing, Math.max(24 - 2 * row.level, 9)),
    );
    return element(
      "div",
      attributes,
      name,
      element("span", { class: "amounts" }, bytesText(value.nbytes)),
    );
  }

  #scope(row, attributes) {
    const branch = this.page.scopes.branches.get(row.thing);
    const whole = branch.parent === null;
    const turn = branch.kind === "turn" ? branch.data.box.caption : branch.title;
    const title = whole ? (PASS_TITLES[branch.pass] ?? branch.pass) : turn;
    const amounts = this.page.scopes.amounts(row.thing);
    const own = amounts.filter((one) => !one.kind.includes("gradient"));
    const nbytes = own.reduce(
      (sum, one) => (one.nbytes === null ? null : sum + (one.nbytes ?? 0)),
      0,
    );
    const count = branch.values.length;
    attributes["data-scope"] = row.thing;
    const twisty = row.expanded === null ? "" : row.expanded ? "▾" : "▸";
    return element(
      "div",
      attributes,
      element("span", { class: "twisty", "aria-hidden": "true" }, twisty),
      element("span", { class: "outline-name scope-name", title }, title),
      element(
        "span",
        { class: "amounts" },
        `${countText(count)} · ${nbytes === null ? "?" : bytesText(nbytes)}`,
      ),
    );
  }

  #isSelected({ thing }) {
    const { selected } = this.page.store.state;
    if (typeof thing === "string") return selected === thing;
    return (
      typeof selected === "number" &&
      (selected === thing || this.page.model.values[selected].of === thing)
    );
  }

  /** Whether what is selected is inside a row that is shut. */
  #holds({ thing, expanded }) {
    const { selected, open } = this.page.store.state;
    const key = expanded === false ? this.page.scopes.keyOf(selected) : null;
    return key !== null && this.page.scopes.around(key).find((scope) => !open.has(scope)) === thing;
  }

  #followSelection() {
    const { selected } = this.page.store.state;
    if (selected === null) return;
    const found = this.rows.findIndex((row) => this.#isSelected(row) || this.#holds(row));
    if (found < 0) return;
    this.at = found;
    this.#bring();
  }

  #click(event) {
    const line = event.target.closest("[data-row]");
    if (!line) return;
    this.at = Number(line.dataset.row);
    const row = this.rows[this.at];
    if (event.target.closest(".twisty")) this.#turn(row);
    else this.#choose(row);
    this.#line()?.focus({ preventScroll: true });
  }

  #choose({ thing }) {
    const whole = typeof thing === "string" && this.page.scopes.branches.get(thing).parent === null;
    if (whole) this.#turn({ thing });
    else this.page.actions.reveal(thing);
  }

  #turn({ thing }) {
    if (this.page.scopes.branches.get(thing).parent !== null) {
      this.page.actions.toggle(thing);
      return;
    }
    if (!this.shut.delete(thing)) this.shut.add(thing);
    this.draw();
  }

  #key(event) {
    const row = this.rows[this.at];
    const moves = {
      ArrowDown: this.at + 1,
      ArrowUp: this.at - 1,
      Home: 0,
      End: this.rows.length - 1,
    };
    if (event.key in moves) this.#move(moves[event.key]);
    else if (event.key === "ArrowRight" && row.expanded === false) this.#turn(row);
    else if (event.key === "ArrowRight" && row.expanded) this.#move(this.at + 1);
    else if (event.key === "ArrowLeft" && row.expanded) this.#turn(row);
    else if (event.key === "ArrowLeft") this.#move(this.#parent(row));
    else if (event.key === "Enter" || event.key === " ") this.#choose(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #move(to) {
    this.at = Math.min(Math.max(to, 0), this.rows.length - 1);
    this.#bring();
    this.#show();
    this.#line()?.focus({ preventScroll: true });
  }

  #parent(row) {
    const before = this.rows.slice(0, this.at);
    const found = before.findLastIndex((one) => one.level < row.level);
    return found < 0 ? this.at : found;
  }
}
