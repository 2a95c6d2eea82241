// Points, lines and rectangles {x, y, width, height}, and how they meet.

/** @typedef {[number, number]} Point */
/** @typedef {{x: number, y: number, width: number, height: number}} Rectangle */

/** The middle of a rectangle. @param {Rectangle} box @returns {Point} */
export function middleOf(box) {
  return [box.x + box.width / 2, box.y + box.height / 2];
}

/** A rectangle around a middle. @returns {Rectangle} */
export function rectangleAround(x, y, width, height) {
  return { x: x - width / 2, y: y - height / 2, width, height };
}

/** A rectangle that is larger on all sides. @returns {Rectangle} */
export function grownBy(box, by) {
  return { x: box.x - by, y: box.y - by, width: box.width + 2 * by, height: box.height + 2 * by };
}

/** Whether two rectangles have inner points in common. @returns {boolean} */
export function rectanglesOverlap(one, other) {
  return (
    one.x < other.x + other.width &&
    other.x < one.x + one.width &&
    one.y < other.y + other.height &&
    other.y < one.y + one.height
  );
}

/** Whether a line has points inside a rectangle. @returns {boolean} */
export function lineCrossesBox(start, end, box) {
  let enters = 0;
  let leaves = 1;
  for (const [position, way, least, size] of [
    [start[0], end[0] - start[0], box.x, box.width],
    [start[1], end[1] - start[1], box.y, box.height],
  ]) {
    if (Math.abs(way) < 1e-9) {
      if (!(least < position && position < least + size)) return false;
      continue;
    }
    const one = (least - position) / way;
    const other = (least + size - position) / way;
    enters = Math.max(enters, Math.min(one, other));
    leaves = Math.min(leaves, Math.max(one, other));
  }
  return enters < leaves;
}

/** Whether two lines cross between their ends. @returns {boolean} */
export function linesCross(a, b, c, d) {
  return sideOf(a, b, c) * sideOf(a, b, d) < 0 && sideOf(c, d, a) * sideOf(c, d, b) < 0;
}

/** On which side of a line a point is: the sign; 0 on the line. @returns {number} */
export function sideOf(start, end, point) {
  return (
    (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])
  );
}

/**
 * Where the line from the middle of a box toward a point leaves it.
 * @param {{form: string, width: number, height: number}} shape
 * @param {Point} centre
 * @param {Point} toward
 * @returns {Point}
 */
export function borderPoint(shape, centre, toward) {
  const dx = toward[0] - centre[0];
  const dy = toward[1] - centre[1];
  let scale = 0;
  if (shape.form === "circle") {
    scale = leavingRound(shape, Math.abs(dx), Math.abs(dy));
  } else if (dx || dy) {
    const across = dx ? shape.width / 2 / Math.abs(dx) : Infinity;
    const along = dy ? shape.height / 2 / Math.abs(dy) : Infinity;
    scale = Math.min(across, along);
  }
  return [centre[0] + dx * scale, centre[1] + dy * scale];
}

/** How often (dx, dy) leads from the middle of an operator to its border. */
function leavingRound(shape, dx, dy) {
  const flat = flatHalf(shape);
  const radius = shape.height / 2;
  if (dx * radius <= flat * dy) return radius / (dy || 1);
  const square = dx * dx + dy * dy;
  const inside = flat * flat * dx * dx - square * (flat * flat - radius * radius);
  return (flat * dx + Math.sqrt(inside)) / square;
}

/** Half of the straight top of an operator: one that is wider than high has round ends. */
export function flatHalf(shape) {
  return (shape.width - shape.height) / 2;
}

/** One line through points, without those in the middle of straight pieces. @returns {Point[]} */
export function joinedPoints(parts) {
  const points = [];
  for (const part of parts) {
    for (const point of part) {
      const last = points.at(-1);
      if (last && Math.abs(last[0] - point[0]) + Math.abs(last[1] - point[1]) < 1e-6) continue;
      if (points.length > 1 && Math.abs(sideOf(points.at(-2), last, point)) < 1e-6) points.pop();
      points.push(point);
    }
  }
  return points;
}
