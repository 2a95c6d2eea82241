// What is in the way of a small box or a short line, looked up in squares of the plane.

import { grownBy, lineCrossesBox, linesCross, rectanglesOverlap } from "./geometry.js";

const SQUARE_SIDE = 128;
const ROOM_AROUND = 6; // between boxes, and between a box and a line for which it makes room
const ROOM_BESIDE = 3; // between a line and a box that it passes

/** Boxes and lines near the rectangles of `interest`; what is elsewhere is not kept. */
export class Obstacles {
  constructor(interest) {
    this.squares = new Map(); // column -> row -> {boxes, lines}
    for (const one of interest) {
      for (const [column, row] of squaresOf(one)) {
        if (!this.squares.has(column)) this.squares.set(column, new Map());
        const rows = this.squares.get(column);
        if (!rows.has(row)) rows.set(row, { boxes: [], lines: [] });
      }
    }
  }

  /** A box that is in the way. */
  addBox(box) {
    for (const [column, row] of squaresOf(box)) this.at(column, row)?.boxes.push(box);
  }

  /** The lines from point to point: of any length if they are level or upright, else short. */
  addLines(points) {
    for (let place = 1; place < points.length; place++) {
      const line = [points[place - 1], points[place]];
      for (const square of this.along(...line)) square.lines.push(line);
    }
  }

  /** Whether no box and no line is in or near `box`. */
  hasRoom(box) {
    const near = grownBy(box, ROOM_AROUND);
    for (const [column, row] of squaresOf(near)) {
      const square = this.at(column, row);
      if (square?.boxes.some((one) => rectanglesOverlap(near, one))) return false;
      if (square?.lines.some(([start, end]) => lineCrossesBox(start, end, near))) return false;
    }
    return true;
  }

  /** Whether a short line meets no other line, and no box but those that are ignored. */
  isClear(start, end, ignored) {
    for (const square of this.along(start, end)) {
      for (const box of square.boxes) {
        if (ignored.some((one) => isSame(one, box))) continue;
        if (lineCrossesBox(start, end, grownBy(box, ROOM_BESIDE))) return false;
      }
      if (square.lines.some(([a, b]) => linesCross(start, end, a, b))) return false;
    }
    return true;
  }

  at(column, row) {
    return this.squares.get(column)?.get(row);
  }

  /** The squares of interest that the bounding box of a line touches. */
  along(start, end) {
    const [left, right] = ordered(start[0], end[0]);
    const [top, bottom] = ordered(start[1], end[1]);
    const found = [];
    for (const rows of within(this.squares, left, right)) {
      for (const square of within(rows, top, bottom)) found.push(square);
    }
    return found;
  }
}

/** The values of a map from numbers whose keys are in a range. */
function within(map, least, greatest) {
  if (greatest - least >= map.size) {
    return [...map].filter(([key]) => key >= least && key <= greatest).map(([, value]) => value);
  }
  const found = [];
  for (let key = least; key <= greatest; key++) if (map.has(key)) found.push(map.get(key));
  return found;
}

function ordered(one, other) {
  const places = [Math.floor(one / SQUARE_SIDE), Math.floor(other / SQUARE_SIDE)];
  return places[0] <= places[1] ? places : places.reverse();
}

function isSame(one, other) {
  return (
    one.x === other.x &&
    one.y === other.y &&
    one.width === other.width &&
    one.height === other.height
  );
}

function squaresOf(box) {
  const [left, right] = ordered(box.x, box.x + box.width);
  const [top, bottom] = ordered(box.y, box.y + box.height);
  const found = [];
  for (let column = left; column <= right; column++) {
    for (let row = top; row <= bottom; row++) found.push([column, row]);
  }
  return found;
}
