// Rows that folded scopes leave empty are given up.

import { COURSE, isNear } from "./layout_board.js";
import { RowParts } from "./layout_rows.js";

const OUTERMOST = 1e6; // more than there are scopes in each other

/**
 * Moves all down to where there is room, if a scope is folded: it needs the rows where arrows come
 * and go, and no others.  What is in one line stays so; arrows that go up do not go down.
 */
export function closeRows(board) {
  const { view, cells } = board;
  if (!view.ofScope.size) return;
  const parts = new RowParts();
  const folded = [...view.ofScope.values()];
  const before = folded.map((spot) => ({ low: cells[spot].low, high: cells[spot].high }));
  shrinkFolded(board, folded);
  const spotParts = cells.map(({ column, low, high }, spot) => {
    return [parts.cell(low, column, spot), parts.cell(high, column, spot)];
  });
  const stretchParts = board.stretches.map((one, place) => connect(board, parts, one, place));
  enclose(board, parts);
  const rows = parts.settled(before);
  spotParts.forEach(([bottom, top], spot) => {
    cells[spot].low = rows[bottom];
    cells[spot].high = rows[top];
  });
  stretchParts.forEach(([start, end, lane], place) => {
    const stretch = board.stretches[place];
    stretch.start.row = rows[start];
    stretch.end.row = rows[end];
    stretch.lane = lane < 0 ? 0 : rows[lane]; // without length it has no meaning
  });
  fitFrames(board);
  board.rows = rows.reduce((most, row) => Math.max(most, row ?? 0), 0) + 1;
}

/** A folded scope has the rows of the arrows that come and go, or one. */
function shrinkFolded(board, folded) {
  const rows = new Map(folded.map((spot) => [spot, []]));
  for (const { start, end } of board.stretches) {
    rows.get(start.spot)?.push(start.row);
    rows.get(end.spot)?.push(end.row);
  }
  for (const [spot, several] of rows) {
    const cell = board.cells[spot];
    cell.high = several.length ? Math.max(...several) : cell.low;
    cell.low = several.length ? Math.min(...several) : cell.low;
  }
}

/** The parts of a stretch: [start, end, lane] (-1: none); what is level with what, or above. */
function connect(board, parts, stretch, place) {
  const { source, start, end, course } = stretch;
  const partAt = (one, side) => {
    return parts.cell(one.row, portColumn(board, one, side), one.spot < 0 ? source : one.spot);
  };
  const from = partAt(start, 1);
  const to = partAt(end, 0);
  const link = (one, other) => {
    const rise = parts.rows[other] - parts.rows[one];
    if (rise === 0) parts.join(one, other);
    else if (rise > 0) parts.raise(one, other);
    else parts.raise(other, one);
  };
  const columns = laneColumns(stretch);
  if (!columns.length) {
    if (course !== COURSE.STRAIGHT) link(from, to);
    return [from, to, -1];
  }
  const owner = course === COURSE.LOOP ? -1 - place : source;
  const lanes = columns.map((column) => parts.cell(stretch.lane, column, owner));
  for (const one of lanes) parts.join(one, lanes[0]);
  link(from, lanes[0]);
  link(lanes[0], to);
  return [from, to, lanes[0]];
}

/** The column of an end; of an open scope's port, that inside. */
function portColumn(board, { column, inner }, side) {
  if (inner < 0) return column;
  const { first, count } = board.frames.get(inner);
  return side ? first + count - 1 : first;
}

/** The columns that a stretch passes in its lane. */
function laneColumns(stretch) {
  const { start, end, course } = stretch;
  const found = [];
  if (course === COURSE.LOOP) {
    for (let column = end.column; column <= start.column; column++) found.push(column);
  } else if (course === COURSE.LANE && !isNear(stretch)) {
    for (let column = start.column + 1; column < end.column; column++) found.push(column);
  }
  return found;
}

/** An open scope stands in its column from the lowest to the highest part of what is in it. */
function enclose(board, parts) {
  const { view, frames } = board;
  const { depth } = view.indexed;
  const bounds = new Map();
  for (const [scope, { low, high, column }] of frames) {
    const bottom = parts.add(low, depth[scope] - OUTERMOST);
    const top = parts.add(high, OUTERMOST - depth[scope]);
    bounds.set(scope, [bottom, top]);
    parts.stand(column, { row: low, bottom, top, owner: view.spots.length + scope });
  }
  for (const [scope, { first, count }] of frames) {
    const [bottom, top] = bounds.get(scope);
    for (let column = first; column < first + count; column++) {
      for (const one of parts.columns.get(column) ?? []) {
        parts.raise(bottom, one.bottom);
        parts.raise(one.top, top);
      }
    }
  }
}

/** An open scope has the rows of what is in it. */
function fitFrames(board) {
  const { view, frames, cells } = board;
  const ranges = new Map(view.visible.map((scope) => [scope, [Infinity, -Infinity]]));
  const include = (scope, low, high) => {
    const range = ranges.get(scope);
    range[0] = Math.min(range[0], low);
    range[1] = Math.max(range[1], high);
  };
  view.spots.forEach(({ within }, spot) => include(within, cells[spot].low, cells[spot].high));
  for (const stretch of board.stretches) {
    const { scope, start, end, lane } = stretch;
    include(scope, Math.min(start.row, end.row), Math.max(start.row, end.row));
    if (laneColumns(stretch).length) include(scope, lane, lane);
  }
  for (const scope of [...view.visible].reverse()) {
    if (scope === 0) continue;
    const frame = frames.get(scope);
    [frame.low, frame.high] = ranges.get(scope);
    include(view.indexed.scopes[scope].parent, frame.low, frame.high);
  }
}
