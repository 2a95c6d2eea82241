// What is seen of a band on one grid: scopes put into each other, columns and rows numbered.

import { VERTEX } from "./layout_index.js";
import { gridOf, spotOf } from "./layout_view.js";

export const COURSE = { LANE: 0, STRAIGHT: 1, ELBOW: 2, LOOP: 3 }; // of a stretch, see its grid

/**
 * Where a stretch begins or ends: at a spot; or (spot -1) at a port, that of scope `inner` in a
 * cell of the outer scope, or else (inner -1) one in an outermost column of its own scope.
 * @typedef {{spot: number, column: number, row: number, inner: number}} End
 */

/**
 * Each scope has columns of its own (`first`, `count`); one number is left out behind them, for the
 * channel there.  `cells` has column, low and high row of every spot; `stretches` are the legs that
 * are drawn, `ways` of every arrow of the view the places of its legs, forward and backward.
 * Folded scopes take as many rows as when they are open.
 */
export function boardOf(view) {
  const board = { view, columns: 0, first: new Map(), frames: new Map() };
  for (const scope of view.visible) {
    board.first.set(scope, board.columns);
    board.columns += gridOf(view.indexed, scope).columns + 1;
  }
  board.top = { first: 0, count: gridOf(view.indexed, 0).columns };
  placeCells(board);
  placeStretches(board);
  board.rows = gridOf(view.indexed, 0).rows;
  return board;
}

/** The cells of all spots; the columns and rows of frames. */
function placeCells(board) {
  const { view, first } = board;
  const { indexed } = view;
  const low = new Map([[0, 0]]);
  const cellOf = (scope, vertex) => {
    const { cells } = gridOf(indexed, scope);
    return [first.get(scope) + cells[2 * vertex], low.get(scope) + cells[2 * vertex + 1]];
  };
  for (const scope of view.visible) {
    if (scope === 0) continue;
    const { parent, key, title, label_width: labelWidth } = indexed.scopes[scope];
    const [column, row] = cellOf(parent, indexed.standing[scope]);
    const grid = gridOf(indexed, scope);
    low.set(scope, row);
    board.frames.set(scope, {
      scope,
      key,
      title,
      labelWidth,
      first: first.get(scope),
      count: grid.columns,
      column,
      low: row,
      high: row + grid.rows - 1,
    });
  }
  board.cells = view.spots.map(({ scope, within, vertex }) => {
    const [column, row] = cellOf(within, vertex);
    const rows = scope < 0 ? 1 : gridOf(indexed, scope).rows;
    return { column, low: row, high: row + rows - 1 };
  });
  board.cellOf = cellOf;
}

/** The legs of arrows that are drawn, in the order of scopes and connections. */
function placeStretches(board) {
  const { view } = board;
  const arrows = [...view.arrows.values()];
  const places = new Map(); // of legs, by scope and connection
  const legs = [];
  for (const way of arrows.flatMap(({ forward, backward }) => [forward, backward])) {
    for (const leg of way ?? []) {
      if (!places.has(leg.name)) legs.push(leg);
      places.set(leg.name, -1);
    }
  }
  legs.sort((one, other) => one.name - other.name);
  legs.forEach(({ name }, place) => places.set(name, place));
  const wayOf = (way) => way && way.map(({ name }) => places.get(name));
  board.stretches = legs.map((leg) => stretchOf(board, leg));
  board.ways = arrows.map(({ forward, backward }) => ({
    forward: wayOf(forward),
    backward: wayOf(backward),
  }));
}

function stretchOf(board, { scope, connection }) {
  const { view } = board;
  const { connections, ways } = gridOf(view.indexed, scope);
  const [from, to, exit, entry] = connections.slice(4 * connection, 4 * connection + 4);
  const [course, row] = ways.slice(2 * connection, 2 * connection + 2);
  const start = endOf(board, scope, from, (grid) => grid.exit_rows[exit]);
  const end = endOf(board, scope, to, (grid) => grid.entry_rows[entry]);
  const lane = board.cellOf(scope, from)[1] - gridOf(view.indexed, scope).cells[2 * from + 1] + row;
  return { scope, source: sourceOf(view, scope, from, exit), start, end, course, lane };
}

function endOf(board, scope, vertex, rise) {
  const { view } = board;
  const { indexed } = view;
  const kind = gridOf(indexed, scope).kinds[vertex];
  const thing = indexed.scopes[scope].things[vertex];
  const [column, row] = board.cellOf(scope, vertex);
  if (kind === VERTEX.ITEM) return { spot: view.ofItem.get(thing), column, row, inner: -1 };
  if (kind !== VERTEX.INNER) return { spot: -1, column, row, inner: -1 };
  const spot = view.ofScope.get(thing) ?? -1;
  const inner = spot < 0 ? thing : -1;
  return { spot, column, row: row + rise(gridOf(indexed, thing)), inner };
}

/** The spot from which a leg comes in the end. */
function sourceOf(view, scope, vertex, exit) {
  const { indexed } = view;
  const { things } = indexed.scopes[scope];
  const thing = things[vertex];
  const kind = gridOf(indexed, scope).kinds[vertex];
  if (kind !== VERTEX.INNER) return spotOf(view, thing);
  const folded = view.ofScope.get(thing);
  if (folded !== undefined) return folded;
  const inner = indexed.scopes[thing];
  const exits = gridOf(indexed, thing).exit_rows.length;
  return spotOf(view, inner.things[inner.things.length - exits + exit]);
}

/** Whether a stretch joins neighbouring columns. */
export function isNear({ start, end }) {
  return end.column - start.column === 1;
}
