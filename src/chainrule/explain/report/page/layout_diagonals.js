// Which arrows can go straight from middle to middle between neighbouring cells.

import { ROW_STRIDE } from "./layout_rows.js";

const CLEARANCE = 6; // between diagonals and boxes
const STEEPEST = 1.6;
const FLATTEST = 0.3;
const FEW_PIECES = 8; // in a channel, where diagonals are tried

/** The places of such stretches among those that are drawn. @returns {Set<number>} */
export function diagonalStretches(room, drawn, entries) {
  const { stretches } = room.board;
  const { all, of } = room.pieces;
  const together = new Map(); // how many come into a box from one side
  const nameOf = (place) => 3 * stretches[place].end.spot + all[of[place][1]].kind;
  for (const place of entries.keys()) countOne(together, nameOf(place));
  const users = new Map(); // how many stretches use a piece
  for (const pair of of) for (const number of pair) countOne(users, number);
  const beside = new Map();
  for (const piece of all) {
    if (!beside.has(piece.channel)) beside.set(piece.channel, []);
    beside.get(piece.channel).push(piece);
  }
  const cells = cellsOf(room);
  const found = new Set();
  for (const place of drawn) {
    const [leaving, arriving] = of[place];
    if (!entries.has(place) || leaving >= 0 || stretches[place].start.spot < 0) continue;
    const piece = all[arriving];
    const isAlone = users.get(arriving) === 1 && together.get(nameOf(place)) === 1;
    const others = beside.get(piece.channel);
    if (!isAlone || others.length > FEW_PIECES) continue;
    if (isClear(room, cells, stretches[place], piece, others)) found.add(place);
  }
  return found;
}

function countOne(counts, name) {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function cellName(column, row) {
  return row * ROW_STRIDE + column;
}

/** Which spot is in each cell: -1 where something larger stands. */
function cellsOf(room) {
  const { cells, frames } = room.board;
  const found = new Map();
  for (const spot of room.shapes.keys()) {
    const { column, low, high } = cells[spot];
    for (let row = low; row <= high; row++) {
      found.set(cellName(column, row), low === high ? spot : -1);
    }
  }
  for (const { column, low, high } of frames.values()) {
    for (let row = low; row <= high; row++) found.set(cellName(column, row), -1);
  }
  return found;
}

/** Whether nothing is near the line from the start of a stretch to its end. */
function isClear(room, cells, stretch, piece, others) {
  const { start, end } = stretch;
  if (end.column - start.column !== 1 || Math.abs(end.row - start.row) !== 1) return false;
  if (room.crowded.has(start.spot) || room.crowded.has(end.spot)) return false;
  if (cells.get(cellName(start.column, start.row)) < 0) return false;
  if (cells.get(cellName(end.column, end.row)) < 0) return false;
  const low = Math.min(start.row, end.row);
  const high = Math.max(start.row, end.row);
  const isMet = (one) => {
    const least = Math.min(one.start, one.reach);
    return one !== piece && least <= high && Math.max(one.start, one.reach) >= low;
  };
  if (others.some(isMet)) return false;
  const [x0, y0] = room.leaves(start);
  const [x1, y1] = room.enters(end);
  const slope = Math.abs(y1 - y0) / (x1 - x0);
  if (!(FLATTEST < slope && slope < STEEPEST)) return false;
  for (const corner of [cellName(start.column, end.row), cellName(end.column, start.row)]) {
    const spot = cells.get(corner) ?? null;
    if (spot !== null && (spot < 0 || isHit(room, spot, [x0, y0], [x1, y1]))) return false;
  }
  return true;
}

/** Whether a diagonal comes too near to a box in one of the two other cells of its square. */
function isHit(room, spot, [x0, y0], [x1, y1]) {
  const { width, height } = room.shapes.get(spot);
  const box = room.box(spot);
  const x = box.x + box.width / 2;
  const y = box.y + box.height / 2;
  const reach =
    Math.abs(y1 - y0) * (width / 2 + CLEARANCE) + (x1 - x0) * (height / 2 + CLEARANCE);
  return Math.abs((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) < reach;
}
