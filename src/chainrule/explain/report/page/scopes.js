// The drawing's scopes as a tree, and which box stands for which value.

import { boxOf, isMirrored, pathTo, scopeOf } from "./layout.js";
import { mirroredKey } from "./layout_index.js";

const ITEM_INSIDE = 1;
const SCOPE_INSIDE = 2;

/**
 * `inside` has the numbers of items and the keys of scopes, in order; `values` the ids of the
 * values that are squares in it or deeper.
 * @typedef {Object} Branch
 * @property {string} key
 * @property {string} title
 * @property {string} kind
 * @property {string} pass
 * @property {string|null} parent
 * @property {(number|string)[]} inside
 * @property {number[]} values
 * @property {any} data
 */

/**
 * @param {any} drawing
 * @param {import("./model.js").Model} model
 * @returns {Scopes}
 */
export function createScopes(drawing, model) {
  return new Scopes(drawing, model);
}

/** Scopes by key; the first of each band, which is never folded, is in `roots`. */
export class Scopes {
  constructor(drawing, model) {
    this.drawing = drawing;
    this.model = model;
    this.branches = new Map();
    this.roots = [];
    this.numberOf = new Map(drawing.items.map((item, number) => [item.key, number]));
    this.squareOf = new Map();
    this.circleOf = new Map();
    this.amountsOf = new Map();
    drawing.bands.forEach((band, place) => this.#addBand(band, place));
    drawing.items.forEach((item, number) => this.#addItem(item, number));
    for (const root of this.roots) this.#gather(root);
  }

  #addBand(band, place) {
    const keys = band.scopes.map((scope, number) => (number ? scope.key : `whole ${place}`));
    band.scopes.forEach((scope, number) => {
      const { kinds } = this.drawing.layouts[scope.layout];
      const inside = [];
      scope.things.forEach((thing, vertex) => {
        if (kinds[vertex] === SCOPE_INSIDE) inside.push(keys[thing]);
        if (kinds[vertex] === ITEM_INSIDE) inside.push(band.first + thing);
      });
      const key = keys[number];
      const parent = scope.parent < 0 ? null : keys[scope.parent];
      const branch = { key, title: scope.title, kind: scope.kind, pass: band.pass, parent, inside };
      this.branches.set(key, { ...branch, values: [], data: scope });
    });
    this.roots.push(keys[0]);
  }

  #addItem(item, number) {
    const id = this.model.idOf.get(item.name || item.makes);
    if (id === undefined || item.form === "copy") return;
    const into = item.name ? this.squareOf : this.circleOf;
    if (!into.has(id)) into.set(id, number);
  }

  #gather(root) {
    const order = [root];
    for (let at = 0; at < order.length; at += 1) {
      for (const one of this.branches.get(order[at]).inside) {
        if (typeof one === "string") order.push(one);
      }
    }
    for (const key of order.reverse()) {
      const branch = this.branches.get(key);
      for (const one of branch.inside) {
        if (typeof one === "string") branch.values.push(...this.branches.get(one).values);
        else if (this.valueOf(one) !== null) branch.values.push(this.valueOf(one));
      }
    }
  }

  /**
   * The id of the value that a square shows; null for circles, copies, and values without a name.
   * @param {number} number of an item
   * @returns {number|null}
   */
  valueOf(number) {
    const { name, form } = this.drawing.items[number];
    return name && form !== "copy" ? (this.model.idOf.get(name) ?? null) : null;
  }

  /**
   * The key of the box of what is selected: of a value its square, or the circle that makes it.
   * @param {number|string|null} selected
   * @returns {string|null}
   */
  keyOf(selected) {
    if (typeof selected !== "number") return selected;
    const number = this.squareOf.get(selected) ?? this.circleOf.get(selected);
    return number === undefined ? null : this.drawing.items[number].key;
  }

  /**
   * The keys of the scopes around a box, from outside to inside; without a scope itself.
   * @param {string} key
   * @returns {string[]}
   */
  around(key) {
    return pathTo(this.drawing, key);
  }

  /**
   * The keys of the frames around a box, and of its own if it is a scope.
   * @param {string} key
   * @returns {string[]}
   */
  frames(key) {
    const mirrored = isMirrored(this.drawing, key);
    const own = scopeOf(this.drawing, key) ? [this.bare(key)] : [];
    return [...this.around(key), ...own].map((one) => (mirrored ? mirroredKey(one) : one));
  }

  /**
   * The scope's own key for the box of its mirror image.
   * @param {string} key
   * @returns {string}
   */
  bare(key) {
    return scopeOf(this.drawing, key)?.key ?? key;
  }

  /**
   * The key of the box that shows an item now: its own, or that of a folded scope around it.
   * @param {Set<string>} open
   * @param {string} key of an item or a scope
   * @returns {string}
   */
  shownAs(open, key) {
    return boxOf(this.drawing, open, key);
  }

  /**
   * Bytes and counts of what is in a scope, by kind of value; gradients are those of its values.
   * @param {string} key
   * @returns {{kind: string, count: number, nbytes: number|null}[]}
   */
  amounts(key) {
    if (!this.amountsOf.has(key)) this.amountsOf.set(key, this.#amounts(key));
    return this.amountsOf.get(key);
  }

  #amounts(key) {
    const { values } = this.model;
    const found = new Map();
    const add = (id) => {
      const { kind, nbytes } = values[id];
      const one = found.get(kind) ?? { kind, count: 0, nbytes: 0 };
      one.count += 1;
      one.nbytes = typeof nbytes === "number" && one.nbytes !== null ? one.nbytes + nbytes : null;
      found.set(kind, one);
    };
    for (const id of this.branches.get(key).values) {
      add(id);
      const { gradient } = values[id];
      if (gradient !== null) add(gradient);
    }
    return [...found.values()];
  }
}
