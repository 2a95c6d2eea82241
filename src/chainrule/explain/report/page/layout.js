// Where everything stands that is seen when some scopes are open.  Python has laid out each scope
// alone (explain/report/layout_data.py); here these are put into each other.

import { arrowsOf } from "./layout_arrows.js";
import { VERTEX, indexFor, mirroredKey } from "./layout_index.js";
import { PASSES, sizesOf } from "./layout_sizes.js";

const MARGIN_ACROSS = 30;
const MARGIN_ALONG = 52;
const BETWEEN_PASSES = 80; // between a band and a further one
const BETWEEN_FRAMES = 24; // of the two passes of a band, at least
const COPY_LETTERS = 14; // of a copy, at most

/**
 * The places of all that is seen.  A box has `item`, what it shows (a folded scope: its `box` or
 * `mirror`), and `scope`, the folded scope (else null); `mirrored` says that it is in the backward
 * band.  Arrows have points from border to border.  The keys of boxes are those of items and
 * scopes; "backward of ..." are those below folded scopes.
 * @param {object} drawing
 * @param {Set<string>} open the keys of open scopes
 * @returns {{boxes: Map<string, object>, frames: object[], arrows: object[], copies: object[],
 *   spans: [number, number][], width: number, height: number}}
 */
export function layoutOf(drawing, open) {
  const picture = new Picture(drawing);
  for (const indexed of indexFor(drawing).bands) {
    if (indexed.band.count) picture.addBand(indexed, sizesOf(indexed, open));
  }
  return picture.placement();
}

/** What is seen so far; y grows downward. */
class Picture {
  constructor(drawing) {
    this.drawing = drawing;
    this.boxes = new Map();
    this.frames = [];
    this.arrows = [];
    this.copies = [];
    this.spans = [];
  }

  /** A band with the one that mirrors it, below what is there. */
  addBand(indexed, sizes) {
    const whole = sizes.get(0);
    const { forward, backward, layout } = whole;
    const top = this.spans.length ? this.spans.at(-1)[1] + BETWEEN_PASSES : 0;
    const rows = { forward: top + forward.high };
    this.spans.push([top, rows.forward - forward.low]);
    if (backward) {
      const apart = layout.forward.low - layout.between; // while all is folded
      const needed = BETWEEN_FRAMES - backward.low;
      rows.backward = rows.forward - forward.low + Math.max(apart, needed);
    }
    const origins = originsOf(indexed, sizes, rows);
    for (const pass of PASSES) {
      if (!whole[pass]) continue;
      const sign = pass === "forward" ? -1 : 1;
      const toPicture = (scope, [x, height]) => {
        const origin = origins.get(scope);
        return [origin.x + x, origin[pass] + sign * height];
      };
      for (const size of sizes.values()) this.#addScope(indexed, size, pass, toPicture);
      this.#addArrows(indexed, sizes, pass, toPicture);
    }
    if (!backward) return;
    for (const size of sizes.values()) this.#addKept(indexed, size, origins);
    const highest = rows.backward + backward.low;
    const copies = this.copies.map(({ key }) => this.boxes.get(key).y);
    this.spans.push([Math.min(highest, ...copies), rows.backward + backward.high]);
  }

  #addScope(indexed, size, pass, toPicture) {
    const { scope, layout, x, inside, [pass]: own } = size;
    if (!own) return;
    const mirrored = pass === "backward";
    if (scope) {
      const { key, title: above, below = above } = indexed.scopes[scope];
      const title = mirrored ? below : above;
      const y = toPicture(scope, [0, mirrored ? own.low : own.high])[1];
      const [left] = toPicture(scope, [0, 0]);
      const { width } = size;
      this.frames.push({ x: left, y, width, height: own.high - own.low, key, title, mirrored });
    }
    layout.kinds.forEach((_, vertex) => {
      const item = inside.has(vertex) ? null : shownAt(indexed, scope, vertex, pass);
      if (!item) return;
      const folded = layout.kinds[vertex] === VERTEX.INNER;
      const [across, along] = toPicture(scope, [x[vertex], own.y[vertex]]);
      const { width, height, key } = item;
      const place = { x: across - width / 2, y: along - height / 2, width, height };
      const thing = folded ? indexed.scopes[indexed.scopes[scope].things[vertex]] : null;
      this.boxes.set(key, { ...place, item, scope: thing, mirrored });
    });
  }

  #addArrows(indexed, sizes, pass, toPicture) {
    const { outlines } = this.drawing.colours;
    for (const arrow of arrowsOf(indexed, sizes, pass, toPicture)) {
      const ends = [arrow.source, arrow.target].map(({ scope, vertex }) => {
        return shownAt(indexed, scope, vertex, pass);
      });
      if (pass === "backward") {
        ends.reverse();
        arrow.points.reverse();
      }
      const [source, target] = ends;
      const coloured = target.role === "copy" ? source : target;
      const line = source.role === "copy" ? "saved" : outlines[coloured.role];
      const { points } = arrow;
      const found = { source: source.key, target: target.key, points, kept: false, nbytes: null };
      this.arrows.push({ ...found, line });
    }
  }

  /** What the backward pass reads of the forward one: dashed arrows from there, or from copies. */
  #addKept(indexed, { scope, layout, x, forward, backward }, origins) {
    const { drawing } = this;
    const origin = origins.get(scope);
    indexed.scopes[scope].kept.forEach((place, at) => {
      const [number, , saved, several] = indexed.mirror.kept[place];
      const [target, source, dx, dy, endX, endY, ...box] = layout.kept[at];
      const original = drawing.items[indexed.band.first + number];
      const reader = shownAt(indexed, scope, target, "backward").key;
      const [left, top] = [origin.x + x[target], origin.backward + backward.y[target]];
      let { key } = original;
      let start = [left + dx, top + dy];
      if (box.length) {
        key = `saved ${original.key} for ${reader}`;
        this.copies.push({ key, source: original.key, target: reader });
        const size = { width: box[2], height: box[3] };
        const item = copyOf(several ? { ...original, ...several, again: null } : original, key, size);
        const shown = { x: left + box[0], y: top + box[1], ...size };
        this.boxes.set(key, { ...shown, item, scope: null, mirrored: true });
      } else {
        start = [origin.x + x[source] + dx, origin.forward - forward.y[source] - dy];
      }
      const points = [start, [left + endX, top + endY]];
      const nbytes = sumOfKnown(saved.map((one) => drawing.saved[one]));
      this.arrows.push({ source: key, target: reader, points, kept: true, nbytes, line: "saved" });
    });
  }

  /** All of it, moved so that there is a margin around. */
  placement() {
    const { boxes, frames, arrows, copies, spans } = this;
    const extent = extentOfAll([...boxes.values(), ...frames], arrows);
    const dx = MARGIN_ACROSS - extent.left;
    const dy = MARGIN_ALONG - extent.top;
    for (const one of [...boxes.values(), ...frames]) {
      one.x += dx;
      one.y += dy;
    }
    for (const arrow of arrows) arrow.points = arrow.points.map(([x, y]) => [x + dx, y + dy]);
    return {
      boxes,
      frames,
      arrows,
      copies,
      spans: spans.map(([top, low]) => [top + dy, low + dy]),
      width: extent.right + dx + MARGIN_ACROSS,
      height: extent.low + dy + MARGIN_ALONG,
    };
  }
}

/** The left end of every open scope, and of each pass the y of its row 0. */
function originsOf(indexed, sizes, rows) {
  const found = new Map([[0, { x: 0, ...rows }]]);
  for (const [scope, size] of sizes) {
    const origin = found.get(scope);
    for (const [vertex, { size: inner }] of size.inside) {
      const place = { x: origin.x + size.x[vertex] - inner.width / 2 };
      for (const pass of PASSES) {
        if (!inner[pass]) continue;
        const height = size[pass].y[vertex] - size.baseOf(vertex, pass);
        place[pass] = origin[pass] + (pass === "forward" ? -height : height);
      }
      found.set(inner.scope, place);
    }
  }
  return found;
}

/** What is drawn at a vertex in a pass: an item, or the box of a folded scope; null if nothing. */
function shownAt(indexed, scope, vertex, pass) {
  const { drawing, band, mirror, scopes, layouts, below } = indexed;
  const thing = scopes[scope].things[vertex];
  const kind = layouts[scope].kinds[vertex];
  if (kind === VERTEX.ITEM) {
    if (pass === "forward") return drawing.items[band.first + thing];
    return below.has(thing) ? drawing.items[mirror.first + below.get(thing)] : null;
  }
  if (kind !== VERTEX.INNER) return null;
  const { key, box, mirror: mirrored } = scopes[thing];
  if (pass === "forward") return { ...box, key };
  return mirrored ? { ...mirrored, key: mirroredKey(key) } : null;
}

function extentOfAll(boxes, arrows) {
  const found = { left: Infinity, top: Infinity, right: -Infinity, low: -Infinity };
  const include = (x, y) => {
    found.left = Math.min(found.left, x);
    found.right = Math.max(found.right, x);
    found.top = Math.min(found.top, y);
    found.low = Math.max(found.low, y);
  };
  for (const { x, y, width, height, item } of boxes) {
    include(x, y);
    include(x + width, y + height + (item?.below ?? 0));
  }
  for (const { points } of arrows) for (const [x, y] of points) include(x, y);
  return boxes.length ? found : { left: 0, top: 0, right: 0, low: 0 };
}

/** A small copy of a box, of a value that the forward pass saves. */
function copyOf(original, key, { width, height }) {
  const own = original.again ?? original.label;
  const label = { ...own, size: Math.min(own.size, COPY_LETTERS) };
  return {
    ...original,
    key,
    form: "copy",
    role: "copy",
    width,
    height,
    label,
    caption: null,
    below: 0,
    tip: `saved for the backward pass\n${original.tip}`,
  };
}

function sumOfKnown(numbers) {
  return numbers.includes(null) ? null : numbers.reduce((sum, one) => sum + one, 0);
}

/**
 * The key of the box that shows an item or a scope now: its own, or that of the outermost folded
 * scope around it.
 * @param {object} drawing
 * @param {Set<string>} open
 * @param {string} key
 * @returns {string}
 */
export function boxOf(drawing, open, key) {
  for (const outer of pathTo(drawing, key)) {
    if (!open.has(outer)) return isMirrored(drawing, key) ? mirroredKey(outer) : outer;
  }
  return key;
}

/**
 * The keys of the scopes around an item or a scope, from outside to inside.
 * @param {object} drawing
 * @param {string} key
 * @returns {string[]}
 */
export function pathTo(drawing, key) {
  const index = indexFor(drawing);
  const item = index.items.get(key);
  const scope = index.scopes.get(key);
  const { band } = item ?? scope ?? {};
  if (!band) return [];
  const path = [];
  let around = item ? band.home[item.number] : band.scopes[scope.scope].parent;
  while (around > 0) {
    path.push(band.scopes[around].key);
    around = band.scopes[around].parent;
  }
  return path.reverse();
}

/** Whether an item or the box of a scope is in the backward band. @returns {boolean} */
export function isMirrored(drawing, key) {
  const index = indexFor(drawing);
  return (index.items.get(key) ?? index.scopes.get(key))?.mirrored ?? false;
}

/** The scope of a key (also of the box below it), or null. */
export function scopeOf(drawing, key) {
  const found = indexFor(drawing).scopes.get(key);
  return found ? found.band.scopes[found.scope] : null;
}
