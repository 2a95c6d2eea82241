// Vertical pieces of arrows in the channels between columns, each on a track that is free.

import { COURSE, isNear } from "./layout_board.js";
import { firstFrom } from "./layout_rows.js";

export const PIECE = { DOWN: 0, UP: 1, BACK: 2 }; // from left to right; BACK ends loops
const MOST_SPOTS = 2 ** 24;
const BEFORE_END = 0.25; // of a row: by so much a piece that ends at a spot stays off its middle

/**
 * The vertical pieces of all stretches; those of one source that begin at the same point are one.
 * `of` has those of each stretch, [leaving, arriving] (-1: none), `tracks` how many tracks each
 * channel needs; channel c is before column c.
 */
export function piecesOf(stretches, columns) {
  const all = [];
  const known = new Map();
  const piece = (source, channel, kind, start, reach) => {
    const group = (channel * MOST_SPOTS + source) * 3 + kind;
    if (!known.has(group)) known.set(group, new Map());
    const starts = known.get(group);
    if (!starts.has(start)) {
      starts.set(start, all.length);
      all.push({ channel, kind, start, reach, track: -1 });
    }
    const one = all[starts.get(start)];
    one.reach = kind === PIECE.UP ? Math.max(one.reach, reach) : Math.min(one.reach, reach);
    return starts.get(start);
  };
  const of = stretches.map((stretch) => verticalsOf(stretch, piece));
  const channels = Array.from({ length: columns }, () => []);
  for (const one of all) channels[one.channel].push(one);
  return { all, of, tracks: channels.map(giveTracks) };
}

/** Whether a stretch needs no vertical piece in a channel. @returns {boolean} */
export function isOneLine(stretch) {
  const { start, end, course, lane } = stretch;
  if (course !== COURSE.LANE) return course !== COURSE.LOOP;
  return start.row === end.row && (isNear(stretch) || lane === end.row);
}

function verticalsOf(stretch, piece) {
  if (isOneLine(stretch)) return [-1, -1];
  const { source, start, end, course } = stretch;
  if (course === COURSE.LOOP) {
    const arriving = beforeEnd(end, stretch.lane);
    return [
      piece(source, start.column + 1, PIECE.UP, start.row, stretch.lane),
      piece(source, end.column, PIECE.BACK, stretch.lane, arriving),
    ];
  }
  const lane = isNear(stretch) ? start.row : stretch.lane;
  let leaving = -1;
  let arriving = -1;
  if (start.row !== lane) {
    leaving = piece(source, start.column + 1, PIECE.UP, start.row, lane);
  }
  if (lane !== end.row) {
    const kind = lane < end.row ? PIECE.UP : PIECE.DOWN;
    arriving = piece(source, end.column, kind, lane, beforeEnd(end, lane));
  }
  return [leaving, arriving];
}

/** At a port a piece ends at its row, at a spot before that. */
function beforeEnd({ spot, row }, lane) {
  if (spot < 0) return row;
  return lane < row ? row - BEFORE_END : row + BEFORE_END;
}

/**
 * Gives tracks to the pieces of a channel, and returns how many there are.  What begins in a row
 * comes left of what ends in it, so that their level parts do not meet: of pieces that go up,
 * those that begin higher are left; of those that go down, right.
 */
function giveTracks(pieces) {
  let count = stackPieces(pieces.filter(({ kind }) => kind === PIECE.DOWN), 0, 1);
  count = stackPieces(pieces.filter(({ kind }) => kind === PIECE.UP), count, -1);
  const back = pieces.filter(({ kind }) => kind === PIECE.BACK);
  for (const piece of back.sort((one, other) => one.start - other.start)) {
    piece.track = count;
    count += 1;
  }
  return count;
}

/**
 * The next track right of all earlier pieces that a piece overlaps.  `starts` and `tracks` keep, of
 * the earlier pieces, those that no later one surpasses in track.
 */
function stackPieces(pieces, first, sign) {
  let count = first;
  const starts = []; // times sign, ascending
  const tracks = []; // descending
  pieces.sort((one, other) => {
    return sign * (one.start - other.start) || -sign * (one.reach - other.reach);
  });
  for (const piece of pieces) {
    const beyond = firstFrom(starts, sign * piece.reach);
    piece.track = beyond < starts.length ? tracks[beyond] + 1 : first;
    count = Math.max(count, piece.track + 1);
    while (tracks.length && tracks.at(-1) <= piece.track) {
      tracks.pop();
      starts.pop();
    }
    starts.push(sign * piece.start);
    tracks.push(piece.track);
  }
  return count;
}
