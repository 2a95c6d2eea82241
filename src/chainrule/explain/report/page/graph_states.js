// What each box of the graph looks like now: its state at the cursor, its colour, whether it is marked.

import { colourText, inkOn } from "./colours.js";

/** Tells for boxes of the layout what state they are in; made anew when the layout changes. */
export class GraphStates {
  /** @param {import("./chips.js").Page} page */
  constructor(page) {
    this.page = page;
    this.spans = new Map();
    this.repeats = { budget: -1, open: null, boxes: new Map() };
  }

  /**
   * How much of what the chosen budget computes again each box shows; those without are left out.
   * @returns {Map<string, number>}
   */
  again() {
    const { budgets, scopes, store } = this.page;
    const { budget, open } = store.state;
    if (budgets && (this.repeats.budget !== budget || this.repeats.open !== open)) {
      this.repeats = { budget, open, boxes: budgets.boxes(budget, scopes, open) };
    }
    return this.repeats.boxes;
  }

  /**
   * The value that a box stands for; null for scopes and for values without a name.
   * @param {any} box
   * @returns {number|null}
   */
  valueOf(box) {
    if (box.scope) return null;
    return this.page.model.idOf.get(box.item.name || box.item.makes) ?? null;
  }

  /**
   * The box of the step at the cursor, when `open` is unfolded.
   * @returns {Set<string>}
   */
  current() {
    const { model, scopes, store } = this.page;
    const step = model.step(store.state.cursor);
    if (!step) return new Set();
    const squares = [...step.writes, ...step.adds].map((id) => scopes.keyOf(id));
    const keys = [step.circle, ...squares].filter((key) => scopes.numberOf.has(key));
    return new Set(keys.map((key) => scopes.shownAs(store.state.open, key)));
  }

  /**
   * @param {any} box
   * @param {string} key of the box
   * @returns {"later"|"begun"|"there"|"again"|"freed"}
   */
  shownState(box, key) {
    const state = this.stateOf(box);
    return state === "there" && this.again().has(key) ? "again" : state;
  }

  /**
   * @param {any} box
   * @returns {"later"|"begun"|"there"|"freed"}
   */
  stateOf(box) {
    const { model, store } = this.page;
    const { cursor } = store.state;
    if (!cursor) return "there";
    if (box.scope) return cursor < this.#firstStep(box) ? "later" : "there";
    if (box.item.form === "circle") {
      return cursor < this.stepOf(box) ? "later" : "there";
    }
    const id = this.valueOf(box);
    if (id === null) return "there";
    const state = model.stateOf(id, cursor);
    return state === "now" ? "there" : /** @type {any} */ (state);
  }

  /**
   * The number of the step that a circle is; 0 for all else.
   * @param {any} box
   * @returns {number}
   */
  stepOf({ scope, item }) {
    if (scope || item.form !== "circle") return 0;
    return this.page.model.stepOfCircle.get(item.key) ?? 0;
  }

  /** The step that makes the first value of a scope, or in its mirror image the first gradient. */
  #firstStep(box) {
    const key = `${box.mirrored} ${box.scope.key}`;
    if (!this.spans.has(key)) this.spans.set(key, this.#leastStep(box));
    return this.spans.get(key);
  }

  #leastStep({ scope, mirrored }) {
    const { model, scopes } = this.page;
    let least = Infinity;
    for (const id of scopes.branches.get(scope.key)?.values ?? []) {
      const made = mirrored ? model.values[id].gradient : id;
      const step = made === null ? 0 : model.madeBy[made];
      if (step) least = Math.min(least, step);
    }
    return least === Infinity ? 0 : least;
  }

  /**
   * Fill and ink of a square by a quantity; null where the kind decides.
   * @param {any} box
   * @param {ReturnType<typeof import("./quantities.js").quantityOf>} quantity
   * @returns {{fill: string, ink: string}|null}
   */
  colourOf(box, quantity) {
    if (!quantity || box.scope || box.item.form === "circle") return null;
    const id = this.valueOf(box);
    const colour = id === null ? null : quantity.colourOf(id);
    return colour && { fill: colourText(colour), ink: inkOn(colour) };
  }
}
