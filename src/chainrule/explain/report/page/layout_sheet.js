// Bands below each other on one picture, with a margin around.

import { routesOf } from "./layout_routes.js";

const MARGIN_ACROSS = 60;
const MARGIN_ALONG = 52;

/** What is on the picture so far; y grows downward. */
export class Sheet {
  constructor(drawing) {
    this.drawing = drawing;
    this.boxes = new Map();
    this.frames = [];
    this.arrows = [];
    this.copies = [];
    this.spans = [];
  }

  /** The end of the last band. */
  get bottom() {
    return this.spans.at(-1)?.[1] ?? 0;
  }

  /** A band that is drawn upward, below what is there. */
  addBand(room, top) {
    const { view, ways } = room.board;
    const base = top + room.alonged.top;
    this.addBoxes(room, false, (box) => base - box.y - box.height);
    this.addFrames(room, false, (box) => base - box.y - box.height);
    this.spans.push([top, base - room.alonged.bottom]);
    const pairs = [...view.arrows.values()];
    const numbers = [...ways.keys()].filter((number) => ways[number].forward);
    const routes = routesOf(room, numbers.map((number) => ways[number].forward));
    routes.forEach((points, place) => {
      const { source, target } = pairs[numbers[place]];
      const way = points.map(([x, y]) => [x, base - y]);
      this.addArrow(room.shapes.get(source), room.shapes.get(target), way);
    });
  }

  /** The backward band, which is drawn downward; `base` is the y of its row 0. */
  addMirrored(found, numbers, kept, base) {
    const { room } = found;
    const pairs = [...room.board.view.arrows.values()];
    this.addBoxes(room, true, (box) => base + box.y);
    this.addFrames(room, true, (box) => base + box.y);
    found.routes.forEach((points, place) => {
      const { source, target } = pairs[numbers[place]];
      const way = points.map(([x, y]) => [x, base + y]).reverse();
      this.addArrow(room.shapes.get(target), room.shapes.get(source), way);
    });
    kept.forEach((one, place) => this.addKept(found, one, place, base));
    const highest = Math.min(0, ...[...found.copies.values()].map((box) => box.y));
    const top = base + Math.min(room.alonged.bottom, highest);
    this.spans.push([top, base + room.alonged.top]);
  }

  addArrow(source, target, points) {
    const { outlines } = this.drawing.colours;
    const coloured = target.role === "copy" ? source : target;
    const line = source.role === "copy" ? "saved" : outlines[coloured.role];
    this.arrows.push({
      source: source.key,
      target: target.key,
      points,
      kept: false,
      nbytes: null,
      line,
    });
  }

  addKept(found, { source, target, nbytes }, place, base) {
    const original = found.above.shapes.get(source);
    const reader = found.room.shapes.get(target).key;
    let { key } = original;
    const box = found.copies.get(place);
    if (box) {
      key = `saved ${original.key} for ${reader}`;
      this.copies.push({ key, source: original.key, target: reader });
      const item = copyOf(original, key, box);
      this.boxes.set(key, { ...box, y: base + box.y, item, scope: null, mirrored: true });
    }
    const points = found.arrows.get(place).map(([x, y]) => [x, base + y]);
    this.arrows.push({ source: key, target: reader, points, kept: true, nbytes, line: "saved" });
  }

  addBoxes(room, mirrored, yOf) {
    const { scopes } = room.board.view.indexed;
    for (const [spot, item] of room.shapes) {
      const box = room.box(spot);
      const folded = room.board.view.spots[spot].scope;
      const scope = folded < 0 ? null : scopes[folded];
      this.boxes.set(item.key, { ...box, y: yOf(box), item, scope, mirrored });
    }
  }

  addFrames(room, mirrored, yOf) {
    for (const frame of room.board.frames.values()) {
      const box = room.frameBox(frame);
      this.frames.push({ ...box, y: yOf(box), key: frame.key, title: frame.title, mirrored });
    }
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

function extentOfAll(boxes, arrows) {
  const found = { left: Infinity, top: Infinity, right: -Infinity, low: -Infinity };
  const include = (x, y) => {
    found.left = Math.min(found.left, x);
    found.right = Math.max(found.right, x);
    found.top = Math.min(found.top, y);
    found.low = Math.max(found.low, y);
  };
  for (const { x, y, width, height } of boxes) {
    include(x, y);
    include(x + width, y + height);
  }
  for (const { points } of arrows) for (const [x, y] of points) include(x, y);
  return boxes.length ? found : { left: 0, top: 0, right: 0, low: 0 };
}

/** A small copy of a box, of a value that the forward pass saves. */
function copyOf(original, key, { width, height }) {
  const label = { ...original.label, size: Math.min(original.label.size, 14) };
  return {
    ...original,
    key,
    caption: "",
    form: "copy",
    role: "copy",
    width,
    height,
    label,
    tip: `saved for the backward pass\n${original.tip}`,
  };
}
