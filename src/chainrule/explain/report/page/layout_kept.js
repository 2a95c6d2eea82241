// The values that the backward band needs: short dashed arrows, or copies beside the operators.
// Heights are those of the mirrored band: y grows downward from the middle of its row 0.

import { borderPoint, middleOf, rectangleAround } from "./geometry.js";
import { Obstacles } from "./geometry_obstacles.js";
import { TITLE_HEIGHT, across, along, extentsOf, reachOf, sizesOf } from "./layout_metrics.js";
import { Room, routesOf } from "./layout_routes.js";

const BETWEEN_BANDS = 116; // from the lowest box of a band to the highest of the next
const LEAST_BETWEEN = 24; // where copies stand between bands
const ASIDE = 17; // from an operator to a copy at one of its corners, across
const AWAY = 10; // and along
const CORNERS = [[1, -1], [-1, -1], [1, 1], [-1, 1]]; // in this order: above right, above left
const BESIDE = 8; // between copies in a line
const LINE_AWAY = 36; // from an operator to the middle of its copies in line, less half a copy
const SPREAD = 0.95; // a line is so much farther away as it is wider, that its arrows are free
const SEEN = 100; // around operators, what can be in the way of copies
const TRIES = 3; // then all copies stand in lines
export const UPWARD = { above: TITLE_HEIGHT, below: 0 }; // the room for titles of frames
const DOWNWARD = { above: 0, below: TITLE_HEIGHT };

/**
 * Both bands in pixels: copies stand at a free corner; where there is none, in a line for which
 * the rows part.  `pair` has the board, the pieces, the shapes `forward` and `backward` by spot,
 * the backward `ways`, and `kept`: {source, target, copy: {width, height}}.
 */
export function mirrorOf(pair) {
  const lined = new Set();
  for (let tries = 0; tries < TRIES; tries++) {
    const result = measured(pair, lined);
    const crowded = fitCopies(pair, result, lined);
    if (!crowded.size) return result;
    for (const target of crowded) lined.add(target);
  }
  for (const { target } of pair.kept) lined.add(target);
  const result = measured(pair, lined);
  fitCopies(pair, result, lined);
  return result;
}

/** The places in `kept` of each operator whose copies stand in a line. */
function copiesInLines(pair, lined) {
  const found = new Map([...lined].map((target) => [target, []]));
  pair.kept.forEach(({ target }, place) => found.get(target)?.push(place));
  return found;
}

/** Width and height of a line of copies, and its middle's distance from the operator. */
function lineSize(pair, places) {
  const copies = places.map((place) => pair.kept[place].copy);
  const gaps = BESIDE * (copies.length - 1);
  const width = copies.reduce((sum, copy) => sum + copy.width, 0) + gaps;
  const height = Math.max(...copies.map((copy) => copy.height));
  return { width, height, away: Math.max(LINE_AWAY + height / 2, (SPREAD * width) / 2 + BESIDE) };
}

/** The bands with room for the given lines of copies. */
function measured(pair, lined) {
  const { board, pieces, forward, backward } = pair;
  const sizes = [...sizesOf(board, forward), ...sizesOf(board, backward)];
  const extents = extentsOf(board, backward);
  for (const [target, places] of copiesInLines(pair, lined)) {
    const { width, height, away } = lineSize(pair, places);
    const { column, low, high } = board.cells[target];
    const reach = reachOf(low, high, backward.get(target).height);
    extents.push({ low, high, above: reach, below: reach + away + height / 2 + BESIDE });
    sizes.push([column, width]);
  }
  const acrossed = across(board, pieces.tracks, sizes);
  const upper = along(board, extentsOf(board, forward), UPWARD);
  const lower = along(board, extents, DOWNWARD);
  const room = new Room(board, pieces, acrossed, lower, backward, lined);
  let lowest = 0;
  for (const [spot, { height }] of backward) {
    const { low, high } = board.cells[spot];
    if (low === 0) lowest = Math.max(lowest, reachOf(low, high, height));
  }
  const between = Math.max(BETWEEN_BANDS + lowest, LEAST_BETWEEN - lower.bottom);
  return {
    room,
    upper,
    above: new Room(board, pieces, acrossed, upper, forward),
    middle: upper.bottom - between, // the y of the forward band's row 0
    routes: routesOf(room, pair.ways),
    copies: new Map(), // by place in `kept`
    arrows: new Map(),
  };
}

/** Places all copies; returns the operators for whose copies there was no room. */
function fitCopies(pair, result, lined) {
  for (const [target, places] of copiesInLines(pair, lined)) {
    placeLine(pair, result, target, places);
  }
  const free = [...pair.kept.keys()].filter((place) => !lined.has(pair.kept[place].target));
  const obstacles = obstaclesNear(pair, result, free.map((place) => pair.kept[place].target));
  const rest = [];
  for (const place of free) {
    const { source, target } = pair.kept[place];
    const points = directLine(pair, result, source, target);
    const own = points && [result.room.box(target), boxAbove(result, source)];
    if (points && obstacles.isClear(...points, own)) {
      obstacles.addLines(points);
      result.arrows.set(place, points);
    } else {
      rest.push(place);
    }
  }
  for (const frame of pair.board.frames.values()) {
    const box = result.room.frameBox(frame);
    obstacles.addLines(around(box));
    obstacles.addLines(around({ ...box, height: TITLE_HEIGHT }));
  }
  const crowded = new Set();
  for (const place of rest) {
    if (!placeAtCorner(pair, result, obstacles, place)) crowded.add(pair.kept[place].target);
  }
  return crowded;
}

/** A copy at the best free corner of its operator, if there is one. */
function placeAtCorner(pair, result, obstacles, place) {
  const { target, copy } = pair.kept[place];
  const item = result.room.box(target);
  const [x, y] = middleOf(item);
  const aside = (item.width + copy.width) / 2 + ASIDE;
  const away = (item.height + copy.height) / 2 + AWAY;
  for (const [right, down] of CORNERS) {
    const box = rectangleAround(x + right * aside, y + down * away, copy.width, copy.height);
    const points = copyArrow(result, target, copy, box);
    if (obstacles.hasRoom(box) && obstacles.isClear(...points, [item])) {
      obstacles.addBox(box);
      obstacles.addLines(points);
      result.copies.set(place, box);
      result.arrows.set(place, points);
      return true;
    }
  }
  return false;
}

/** Copies side by side above their operator. */
function placeLine(pair, result, target, places) {
  const { width, away } = lineSize(pair, places);
  const item = result.room.box(target);
  const y = item.y - away;
  let left = middleOf(item)[0] - width / 2;
  for (const place of places) {
    const { copy } = pair.kept[place];
    const box = { x: left, y: y - copy.height / 2, width: copy.width, height: copy.height };
    result.copies.set(place, box);
    result.arrows.set(place, copyArrow(result, target, copy, box));
    left += copy.width + BESIDE;
  }
}

/** A box as what lines leave: its own height may be more than that of its shape. */
function shapeOf(result, spot, box) {
  return { form: result.room.shapes.get(spot).form, width: box.width, height: box.height };
}

/** From a copy to its operator, toward its middle. */
function copyArrow(result, target, copy, box) {
  const item = result.room.box(target);
  const centre = middleOf(item);
  const own = middleOf(box);
  return [
    borderPoint({ ...copy, form: "copy" }, own, centre),
    borderPoint(shapeOf(result, target, item), centre, own),
  ];
}

/** From a value in row 0 of the forward band to an operator at most a column away. */
function directLine(pair, result, source, target) {
  const { cells } = pair.board;
  if (cells[target].low || cells[source].low) return null;
  if (Math.abs(cells[target].column - cells[source].column) > 1) return null;
  const box = boxAbove(result, source);
  const item = result.room.box(target);
  const [start, end] = [middleOf(box), middleOf(item)];
  const shape = { form: pair.forward.get(source).form, width: box.width, height: box.height };
  return [borderPoint(shape, start, end), borderPoint(shapeOf(result, target, item), end, start)];
}

/** The box of a spot of the forward band, where y grows downward. */
function boxAbove(result, spot) {
  const box = result.above.box(spot);
  return { ...box, y: result.middle - box.y - box.height };
}

function around({ x, y, width, height }) {
  return [[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]];
}

/** All that is near the given operators: boxes of both bands, copies, arrows. */
function obstaclesNear(pair, result, targets) {
  const reach = BETWEEN_BANDS + SEEN;
  const interest = [...new Set(targets)].map((target) => {
    const { x, y, width, height } = result.room.box(target);
    return { x: x - reach, y: y - reach, width: width + 2 * reach, height: height + 2 * reach };
  });
  const found = new Obstacles(interest);
  for (const spot of pair.backward.keys()) found.addBox(result.room.box(spot));
  for (const spot of pair.forward.keys()) {
    if (!pair.board.cells[spot].low) found.addBox(boxAbove(result, spot));
  }
  for (const box of result.copies.values()) found.addBox(box);
  for (const points of [...result.routes, ...result.arrows.values()]) found.addLines(points);
  return found;
}
