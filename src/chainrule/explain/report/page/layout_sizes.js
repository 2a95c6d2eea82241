// How large the open scopes are, and where what is in them stands: each layout with what the open
// scopes inside need added.  Lengths of a pass are from the middle of its row 0, away from the
// other pass.

import { VERTEX } from "./layout_index.js";

export const PASSES = ["forward", "backward"];

/**
 * The open scopes of a band that are in open ones, outer ones first, by number.
 * @param {object} indexed one of the index's bands
 * @param {Set<string>} open keys
 * @returns {Map<number, Size>}
 */
export function sizesOf(indexed, open) {
  const visible = [];
  const pending = [0];
  while (pending.length) {
    const scope = pending.pop();
    visible.push(scope);
    const { kinds } = indexed.layouts[scope];
    indexed.scopes[scope].things.forEach((thing, vertex) => {
      const isOpen = kinds[vertex] === VERTEX.INNER && open.has(indexed.scopes[thing].key);
      if (isOpen) pending.push(thing);
    });
  }
  visible.sort((one, other) => one - other);
  const found = new Map(visible.map((scope) => [scope, null]));
  for (const scope of visible.reverse()) {
    found.set(scope, new Size(indexed, scope, found));
  }
  return found;
}

/** An open scope: `x` of vertices, and for each pass {y, low, high, laneOf}; null without one. */
class Size {
  constructor(indexed, scope, sizes) {
    this.scope = scope;
    this.layout = indexed.layouts[scope];
    this.inside = new Map(); // vertex -> {size, place (in `inner`), base, box, mirror}
    this.growths = []; // [x of a column, by how much it is wider]
    this.#findInside(indexed, sizes);
    this.x = this.layout.x.map((x) => this.across(x));
    this.width = this.growths.reduce((sum, [, by]) => sum + by, this.layout.width);
    for (const pass of PASSES) this[pass] = this.layout[pass] ? this.#passOf(pass) : null;
  }

  #findInside({ scopes }, sizes) {
    const { inner = [] } = this.layout;
    const wider = new Map();
    for (let place = 0; place < inner.length; place += 3) {
      const [vertex, base, room] = inner.slice(place, place + 3);
      const thing = scopes[this.scope].things[vertex];
      const size = sizes.get(thing);
      if (!size) continue;
      const { box, mirror } = scopes[thing];
      const heights = { forward: box.height, backward: mirror?.height ?? 0 };
      this.inside.set(vertex, { size, place: place / 3, base, heights });
      const x = this.layout.x[vertex];
      wider.set(x, Math.max(wider.get(x) ?? 0, size.width - room));
    }
    this.growths = [...wider].filter(([, by]) => by > 0);
  }

  /** Where something is that stands at some x while all inside is folded. */
  across(x) {
    let found = x;
    for (const [centre, by] of this.growths) {
      if (centre < x) found += by;
      else if (centre === x) found += by / 2;
    }
    return found;
  }

  #passOf(pass) {
    const told = this.layout[pass];
    if (!this.inside.size) return { ...told, lane: (_, height) => height };
    const { units, lanes } = this.layout;
    const reaches = this.#reachesOf(pass);
    const moved = movesOf(told.orders, told.free.length, reaches);
    let [rise, sink] = [0, 0];
    moved.forEach((by, unit) => (rise = Math.max(rise, by - told.free[unit])));
    for (const [vertex, { up, down }] of reaches) {
      const by = moved[units[vertex]];
      const { place } = this.inside.get(vertex);
      rise = Math.max(rise, by + up - told.above[place]);
      sink = Math.max(sink, down - by - told.below[place]);
    }
    return {
      legs: told.legs,
      y: told.y.map((height, vertex) => height + moved[units[vertex]]),
      lane: (connection, height) => height + moved[lanes[connection]],
      low: told.low - sink,
      high: told.high + rise,
    };
  }

  /** By how much more the scopes inside reach up and down than when they are folded. */
  #reachesOf(pass) {
    const found = new Map();
    for (const [vertex, { size, heights }] of this.inside) {
      const inner = size[pass];
      if (!inner) continue;
      const half = heights[pass] / 2;
      const base = this.baseOf(vertex, pass);
      const up = Math.max(inner.high - base - half, 0);
      const down = Math.max(base - inner.low - half, 0);
      found.set(vertex, { up, down });
    }
    return found;
  }

  /** The height in an open scope inside that is level with its row. */
  baseOf(vertex, pass) {
    const { size, base } = this.inside.get(vertex);
    return base < 0 ? 0 : size[pass].y[base];
  }
}

/** By how much each unit moves up, so that there is room for what the scopes inside reach. */
function movesOf(orders, count, reaches) {
  const moved = new Array(count).fill(0);
  for (let place = 0; place < orders.length; place += 5) {
    const [lower, upper, below, above, slack] = orders.slice(place, place + 5);
    const needed = (reaches.get(below)?.up ?? 0) + (reaches.get(above)?.down ?? 0);
    moved[upper] = Math.max(moved[upper], moved[lower] + Math.max(needed - slack, 0));
  }
  return moved;
}
