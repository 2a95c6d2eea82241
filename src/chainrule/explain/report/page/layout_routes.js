// The points of every arrow: out of its source, along tracks and lanes, into its target.

import { borderPoint, flatHalf, joinedPoints } from "./geometry.js";
import { COURSE } from "./layout_board.js";
import { diagonalStretches } from "./layout_diagonals.js";
import { reachOf, trackAt } from "./layout_metrics.js";
import { PIECE, isOneLine } from "./layout_tracks.js";

const BEND = 16; // before a circle, arrows that come from a track turn toward its middle
const LEAST_ANGLE = 24; // of these, from the horizontal
const GREATEST_ANGLE = 70;
const SLOT = 12; // between arrows that enter a box at its left side, at most
const BOX_CORNER = 6; // of a box, where no arrow enters

/**
 * A band in pixels: y grows upward; `shapes` are the boxes that stand there, by spot.  No arrow
 * runs diagonally from or to the spots in `crowded`.
 */
export class Room {
  constructor(board, pieces, acrossed, alonged, shapes, crowded = new Set()) {
    Object.assign(this, { board, pieces, acrossed, alonged, shapes, crowded });
  }

  /** The place of a port from which a stretch goes, or the middle of a box in its row. */
  leaves(end) {
    return this.place(end, 1);
  }

  /** The place of a port to which a stretch goes, or the middle of a box in its row. */
  enters(end) {
    return this.place(end, 0);
  }

  place(end, side) {
    const height = this.alonged.rows[end.row];
    if (end.inner < 0) return [this.acrossed.centres[end.column], height];
    return [this.acrossed.sides.get(end.inner)[side], height];
  }

  /** The box of a spot; y is that of its lower side, where y grows upward. */
  box(spot) {
    const { column, low, high } = this.board.cells[spot];
    const { width, height } = this.shapes.get(spot);
    const reach = reachOf(low, high, height);
    const { rows } = this.alonged;
    const x = this.acrossed.centres[column] - width / 2;
    return { x, y: rows[low] - reach, width, height: rows[high] - rows[low] + 2 * reach };
  }

  /** The box of the frame of a scope, as `box`. */
  frameBox({ scope, low, high }) {
    const { rows, above, below } = this.alonged;
    const [left, right] = this.acrossed.sides.get(scope);
    const y = rows[low] - below.get(scope);
    return { x: left, y, width: right - left, height: rows[high] + above.get(scope) - y };
  }

  /** The x of the track of a piece. */
  trackOf(number) {
    const { channel, track } = this.pieces.all[number];
    return trackAt(this.acrossed, channel, track);
  }

  /** Where the line from `centre` leaves the box at an end; a port is met where it is. */
  border(end, centre, toward) {
    return end.spot < 0 ? centre : borderPoint(this.shapes.get(end.spot), centre, toward);
  }
}

/** The points of ways (lists of places of stretches), from border to border. */
export function routesOf(room, ways) {
  const drawn = [...new Set(ways.flat())].sort((one, other) => one - other);
  const entries = entriesOf(room, drawn);
  const diagonal = diagonalStretches(room, drawn, entries);
  const parts = new Map();
  for (const place of drawn) {
    const points = diagonal.has(place)
      ? diagonalPoints(room, place)
      : [...stretchPoints(room, place, entries.get(place))];
    parts.set(place, points);
  }
  return ways.map((way) => joinedPoints(way.map((place) => parts.get(place))));
}

/** For stretches that come into a box from above or below, each its own place at the border. */
function entriesOf(room, drawn) {
  const arriving = new Map();
  for (const place of drawn) {
    const number = room.pieces.of[place][1];
    const { spot, row } = room.board.stretches[place].end;
    if (number < 0 || spot < 0) continue;
    const fromBelow = room.pieces.all[number].kind === PIECE.UP;
    const name = `${spot} ${row} ${fromBelow}`;
    if (!arriving.has(name)) arriving.set(name, { spot, row, fromBelow, several: [] });
    arriving.get(name).several.push([room.trackOf(number), place]);
  }
  const found = new Map();
  for (const { spot, row, fromBelow, several } of arriving.values()) {
    several.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    several.forEach(([, place], slot) => {
      found.set(place, entryOf(room, spot, row, slot, several.length, fromBelow));
    });
  }
  return found;
}

/** Along `height` to `bend`, then to `border`; the first slot is nearest to the middle. */
function entryOf(room, spot, row, slot, count, fromBelow) {
  const shape = room.shapes.get(spot);
  const middle = room.acrossed.centres[room.board.cells[spot].column];
  const y = room.alonged.rows[row];
  const sign = fromBelow ? -1 : 1;
  if (shape.form !== "circle") {
    const step = Math.min(SLOT, freeSide(room, spot, row, fromBelow) / count);
    const height = y + sign * step * (slot + 1);
    const x = middle - shape.width / 2;
    return { height, bend: x, border: [x, height] };
  }
  const spread = (GREATEST_ANGLE - LEAST_ANGLE) * (slot / (count - 1 || 1));
  const angle = ((count > 1 ? LEAST_ANGLE + spread : 45) * Math.PI) / 180;
  const cosine = Math.cos(angle);
  const sine = sign * Math.sin(angle);
  const x = middle - flatHalf(shape); // the middle of the round end
  const radius = shape.height / 2;
  const outer = radius + BEND;
  return {
    height: y + outer * sine,
    bend: x - outer * cosine,
    border: [x - radius * cosine, y + radius * sine],
  };
}

/** How much of the left side of a box is free below or above one of its rows. */
function freeSide(room, spot, row, below) {
  const { low, high } = room.board.cells[spot];
  const { rows } = room.alonged;
  if (row === (below ? low : high)) {
    return reachOf(low, high, room.shapes.get(spot).height) - BOX_CORNER;
  }
  return Math.abs(rows[row] - rows[below ? row - 1 : row + 1]) / 2 - 1;
}

/** The points of one stretch. */
function* stretchPoints(room, place, entry) {
  const stretch = room.board.stretches[place];
  const start = room.leaves(stretch.start);
  const end = room.enters(stretch.end);
  if (stretch.course === COURSE.ELBOW) {
    const corner = [start[0], end[1]];
    yield [start[0], start[1] + room.shapes.get(stretch.start.spot).height / 2];
    yield corner;
    yield borderPoint(room.shapes.get(stretch.end.spot), end, corner);
  } else if (isOneLine(stretch)) {
    yield room.border(stretch.start, start, end);
    yield room.border(stretch.end, end, start);
  } else {
    yield room.border(stretch.start, start, [start[0] + 1, start[1]]);
    yield* alongTracks(room, place, entry);
  }
}

/** From the right side of the source to the target, over a lane. */
function* alongTracks(room, place, entry) {
  const stretch = room.board.stretches[place];
  const [leaving, arriving] = room.pieces.of[place];
  let height = room.leaves(stretch.start)[1];
  const end = room.enters(stretch.end);
  if (leaving >= 0) {
    const x = room.trackOf(leaving);
    yield [x, height];
    height = room.alonged.rows[stretch.lane];
    yield [x, height];
  }
  if (arriving >= 0) {
    const x = room.trackOf(arriving);
    yield [x, height];
    yield [x, entry ? entry.height : end[1]];
  }
  if (entry) {
    yield [entry.bend, entry.height];
    yield entry.border;
  } else {
    yield room.border(stretch.end, end, [end[0] - 1, end[1]]);
  }
}

function diagonalPoints(room, place) {
  const { start, end } = room.board.stretches[place];
  const from = room.leaves(start);
  const to = room.enters(end);
  return [room.border(start, from, to), room.border(end, to, from)];
}
