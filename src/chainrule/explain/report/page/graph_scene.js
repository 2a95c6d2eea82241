// What of the graph is in the document: the boxes in sight and near it, in as much detail as can be seen.

import { vector } from "./dom.js";
import { collapsedFrames, farShapes, holds } from "./graph_far.js";
import { drawnPasses, stripesOf } from "./graph_passes.js";
import { arrowHeads, arrowShape, boxShape, frameShape } from "./graph_shapes.js";
import { haloShape, markAgain } from "./graph_shapes.js";
import { mirroredKey } from "./layout_index.js";
import { GraphStates } from "./graph_states.js";
import { quantityOf } from "./quantities.js";

const SPARE_AROUND = 0.5;
const FAR_BELOW = 0.11;
const TEXT_BELOW = 0.2;
const MOST_BOXES = 1300;

/** Draws into an SVG element; `take` a layout, `look` from a view, `decorate` by the state. */
export class GraphScene {
  constructor(page, svg) {
    this.page = page;
    this.svg = svg;
    this.layers = ["tints", "frames", "arrows", "far", "nodes"].map((name) =>
      vector("g", { class: name }),
    );
    [this.tints, this.frames, this.arrows, this.far, this.nodes] = this.layers;
    this.world = vector("g", {}, ...this.layers);
    svg.append(arrowHeads(), this.world);
    this.states = new GraphStates(page);
  }

  /** A new layout: everything is drawn anew. */
  take(layout) {
    this.layout = layout;
    this.entries = [...layout.boxes];
    this.ends = endsOf(layout.arrows);
    this.bounds = layout.arrows.map(boundsOf);
    this.drawn = null;
  }

  /** Moves the picture; draws what has come into sight. */
  look(view, screen) {
    this.world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    const seen = {
      left: -view.x / view.scale,
      top: -view.y / view.scale,
      right: (screen.width - view.x) / view.scale,
      bottom: (screen.height - view.y) / view.scale,
    };
    const far = view.scale < FAR_BELOW;
    this.svg.classList.toggle("no-text", view.scale < TEXT_BELOW);
    const { drawn } = this;
    const same = drawn && drawn.far === far && inside(seen, drawn);
    if (same && view.scale < drawn.scale * 1.6 && view.scale > drawn.scale / 2.5) return;
    this.#draw(seen, view.scale, far);
    this.decorate(this.held ?? null);
  }

  #draw(seen, scale, far) {
    const [spareX, spareY] = [
      (seen.right - seen.left) * SPARE_AROUND,
      (seen.bottom - seen.top) * SPARE_AROUND,
    ];
    const area = {
      left: seen.left - spareX,
      right: seen.right + spareX,
      top: seen.top - spareY,
      bottom: seen.bottom + spareY,
    };
    const { frames, arrows } = this.layout;
    const boxes = this.entries.filter(([, box]) => touches(box, area));
    const lines = arrows.filter((_, number) => touches(this.bounds[number], area));
    this.drawn = { ...area, scale, far };
    this.coarse = far || boxes.length > MOST_BOXES;
    this.svg.classList.toggle("coarse", this.coarse);
    this.#drawFrames(frames.filter((frame) => touches(frame, area)));
    this.#drawTints();
    if (this.coarse) this.#drawFar(boxes, lines, frames, scale);
    else this.#drawNear(boxes, lines);
  }

  #drawNear(boxes, lines) {
    this.far.replaceChildren();
    const { scale } = this.drawn;
    const shape = (key, box) =>
      boxShape(key, box, this.ends.get(key) ?? [], this.states.stepOf(box), scale);
    this.shown = new Map(boxes.map(([key, box]) => [key, shape(key, box)]));
    this.nodes.replaceChildren(...this.shown.values());
    this.lines = lines.map((arrow) => ({ arrow, shape: arrowShape(arrow) }));
    this.arrows.replaceChildren(...this.lines.map((one) => one.shape));
  }

  #drawFar(boxes, lines, frames, scale) {
    const small = collapsedFrames(frames, scale);
    const hidden = (box) => small.some((frame) => holds(frame, box));
    const shown = small.length ? boxes.filter(([, box]) => !hidden(box)) : boxes;
    const keys = new Set(shown.map(([key]) => key));
    const arrows = small.length
      ? lines.filter((one) => keys.has(one.source) || keys.has(one.target))
      : lines;
    this.shown = new Map();
    this.lines = [];
    this.nodes.replaceChildren();
    this.arrows.replaceChildren();
    this.coarseParts = { boxes: shown, arrows };
  }

  #fillFar(quantity) {
    const { boxes, arrows } = this.coarseParts;
    const stateOf = (box, key) => this.states.shownState(box, key);
    const fillOf = (box) => this.states.colourOf(box, quantity)?.fill ?? "";
    this.far.replaceChildren(...farShapes(boxes, arrows, stateOf, fillOf));
  }

  #drawFrames(frames) {
    this.frameShapes = frames.map((frame) => ({
      frame,
      shape: frameShape(frame, this.drawn.scale),
    }));
    this.frames.replaceChildren(...this.frameShapes.map((one) => one.shape));
  }

  /** A faint stripe behind each pass. */
  #drawTints() {
    const { left, right } = this.drawn;
    const passes = drawnPasses(this.page.data.drawing);
    const tints = stripesOf(this.layout.spans).map(([top, bottom], place) => {
      const size = { width: right - left, height: bottom - top };
      return vector("rect", { class: `tint ${passes[place].pass}`, x: left, y: top, ...size });
    });
    this.tints.replaceChildren(...tints);
  }

  /** State at the cursor, colours, and what is marked. */
  decorate(held) {
    this.held = held;
    if (!this.drawn) return;
    const { model, store } = this.page;
    const { colour, selected } = store.state;
    const quantity = quantityOf(model, colour);
    const now = this.states.current();
    if (this.coarse) this.#fillFar(quantity);
    for (const [key, shape] of this.shown) {
      const box = this.layout.boxes.get(key);
      shape.setAttribute("data-state", now.has(key) ? "now" : this.states.shownState(box, key));
      markAgain(shape, box, this.states.again().get(key) ?? 0);
      this.#mark(shape, box, this.isSame(key, selected), key === held);
      const painted = this.states.colourOf(box, quantity);
      shape.style.setProperty("--painted", painted?.fill ?? "");
      shape.style.setProperty("--on-painted", painted?.ink ?? "");
      shape.classList.toggle("painted", painted !== null);
    }
    for (const { frame, shape } of this.frameShapes) {
      shape.classList.toggle("selected", this.page.scopes.bare(String(selected)) === frame.key);
    }
    this.#decorateLines(selected);
    if (this.coarse) this.#markFar(selected);
  }

  #decorateLines(selected) {
    const { scopes } = this.page;
    const wanted = scopes.keyOf(selected);
    const frames = wanted === null ? [] : scopes.frames(wanted);
    const boxes = [...this.shown.keys()].filter((key) => this.isSame(key, selected));
    const marked = new Set([...boxes, ...frames]);
    const isLater = (key) => {
      const box = this.layout.boxes.get(key);
      return box !== undefined && this.states.stateOf(box) === "later";
    };
    for (const { arrow, shape } of this.lines) {
      const later = isLater(arrow.source) || isLater(arrow.target);
      shape.setAttribute("data-state", later ? "later" : "there");
      shape.classList.toggle("strong", marked.has(arrow.source) || marked.has(arrow.target));
    }
  }

  #markFar(selected) {
    for (const [key, box] of this.coarseParts.boxes) {
      if (this.isSame(key, selected)) this.far.append(haloShape(box));
    }
  }

  #mark(shape, box, selected, held) {
    shape.classList.toggle("selected", selected);
    shape.classList.toggle("held", held);
    const halo = shape.querySelector(".halo");
    if (selected && !halo) shape.insertBefore(haloShape(box), shape.querySelector(".name"));
    if (!selected) halo?.remove();
  }

  /** Whether a box stands for what is selected, or hides it. */
  isSame(key, selected) {
    if (key === null || selected === null) return false;
    if (key === selected) return true;
    const { scopes, store } = this.page;
    const box = this.layout.boxes.get(key);
    if (box && !box.scope)
      return typeof selected === "number" && this.states.valueOf(box) === selected;
    const wanted = scopes.keyOf(selected);
    return wanted !== null && scopes.shownAs(store.state.open, wanted) === key;
  }

  /** The id of the value of a box. */
  valueAt(key) {
    const box = this.layout.boxes.get(key);
    return box ? this.states.valueOf(box) : null;
  }

  /** The key of the box, or of the innermost frame, at a place on the screen. */
  keyAt({ x, y }, view) {
    const point = {
      x: (x - view.x) / view.scale,
      y: (y - view.y) / view.scale,
      width: 0,
      height: 0,
    };
    const box = this.entries.find(([, one]) => holds(one, point));
    if (box) return box[0];
    const frames = this.layout.frames.filter((frame) => holds(frame, point));
    const inner = frames.sort((one, other) => one.width - other.width)[0];
    if (!inner) return null;
    return inner.mirrored ? mirroredKey(inner.key) : inner.key;
  }
}

function endsOf(arrows) {
  const found = new Map();
  const add = (key, point) => {
    const ends = found.get(key);
    if (ends) ends.push(point);
    else found.set(key, [point]);
  };
  for (const { source, target, points } of arrows) {
    add(source, points[0]);
    add(target, points[points.length - 1]);
  }
  return found;
}

function boundsOf({ points }) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

function touches({ x, y, width, height }, area) {
  return x <= area.right && x + width >= area.left && y <= area.bottom && y + height >= area.top;
}

function inside(seen, area) {
  return (
    seen.left >= area.left &&
    seen.right <= area.right &&
    seen.top >= area.top &&
    seen.bottom <= area.bottom
  );
}
