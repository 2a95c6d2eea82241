// From columns and rows to pixels: each as large as what stands in it, with room between them.

const COLUMN_GAP = 48; // with squares of 52 pixels, columns are 100 apart, as in a textbook
const PORT_GAP = 30; // beside the border of a frame
const ROW_GAPS = [12, 22, 44]; // between rows of lanes, a row of lanes and one of boxes, of boxes
const TRACK_GAP = 8;
const BEFORE_TRACKS = 12;
const AFTER_TRACKS = 24; // where arrows bend into their targets
const FRAME_PAD = 14; // between a frame and what is in it
const LEAST_REACH = 14; // of a folded box of several rows, above the highest and below the lowest
export const TITLE_HEIGHT = 20;

/**
 * The x of the middle of columns and of the first tracks in the channels before them; the left and
 * right ends of scopes.  Columns are as wide as the widest of `sizes` ([column, width]) and of the
 * scopes that stand there, channels as their tracks need.
 */
export function across(board, tracks, sizes) {
  const widths = new Array(board.columns).fill(0);
  for (const [column, width] of sizes) widths[column] = Math.max(widths[column], width);
  const into = { centres: widths.map(() => 0), tracks: widths.map(() => 0) };
  const wide = new Map();
  const frames = [...board.frames.values()];
  for (const frame of [...frames].reverse()) {
    const gaps = channelWidths(frame, tracks, PORT_GAP);
    const room = sumOf(gaps) + sumOf(widths.slice(frame.first, frame.first + frame.count));
    gaps[gaps.length - 2] += Math.max(frame.labelWidth + 2 * FRAME_PAD - room, 0);
    wide.set(frame.scope, setOut(frame, tracks, widths, gaps, into));
    widths[frame.column] = Math.max(widths[frame.column], wide.get(frame.scope));
  }
  const gaps = channelWidths(board.top, tracks, COLUMN_GAP);
  const sides = new Map([[0, [0, setOut(board.top, tracks, widths, gaps, into)]]]);
  for (const frame of frames) {
    const left = into.centres[frame.column] - wide.get(frame.scope) / 2;
    sides.set(frame.scope, [left, left + wide.get(frame.scope)]);
    for (let column = frame.first; column <= frame.first + frame.count; column++) {
      into.centres[column] += left;
      into.tracks[column] += left;
    }
  }
  return { centres: into.centres, firstTracks: into.tracks, sides };
}

/** The x of a track. @returns {number} */
export function trackAt(acrossed, channel, track) {
  return acrossed.firstTracks[channel] + track * TRACK_GAP;
}

/** The width of a channel with so many tracks. */
function channelNeed(count) {
  return count ? BEFORE_TRACKS + (count - 1) * TRACK_GAP + AFTER_TRACKS : 0;
}

/** The widths of the channels of a scope; `outermost` is the least of those beside ports. */
function channelWidths({ first, count }, tracks, outermost) {
  const found = [];
  for (let place = 0; place <= count; place++) {
    const least = place === 1 || place === count - 1 ? outermost : COLUMN_GAP;
    const isInside = place > 0 && place < count;
    found.push(Math.max(isInside ? least : 0, channelNeed(tracks[first + place])));
  }
  return found;
}

/** Writes middles of columns and first tracks, from the left end of a scope; returns its width. */
function setOut({ first, count }, tracks, widths, gaps, into) {
  let x = 0;
  for (let place = 0; place <= count; place++) {
    const column = first + place;
    const rest = Math.max(gaps[place] - channelNeed(tracks[column]), 0);
    into.tracks[column] = x + BEFORE_TRACKS + rest / 2;
    x += gaps[place];
    if (place < count) {
      into.centres[column] = x + widths[column] / 2;
      x += widths[column];
    }
  }
  return x;
}

/** A sum from left to right. @returns {number} */
export function sumOf(numbers) {
  return numbers.reduce((sum, one) => sum + one, 0);
}

/** What the boxes of some spots take above and below their rows. @returns {object[]} */
export function extentsOf(board, shapes) {
  return [...shapes].map(([spot, { height }]) => {
    const { low, high } = board.cells[spot];
    const reach = reachOf(low, high, height);
    return { low, high, above: reach, below: reach };
  });
}

/** The columns of some spots, and how wide their boxes are. @returns {[number, number][]} */
export function sizesOf(board, shapes) {
  return [...shapes].map(([spot, { width }]) => [board.cells[spot].column, width]);
}

/** How far a box reaches above its highest row, and below its lowest. @returns {number} */
export function reachOf(low, high, height) {
  if (low === high) return height / 2;
  return Math.max(LEAST_REACH, (height - ROW_GAPS[0] * (high - low)) / 2);
}

/**
 * The height y of rows, growing upward from 0 at the lowest; what frames reach above and below
 * their rows; the range of all.  Rows of lanes alone take little; `titles` is the room for those
 * of frames, above and below.
 */
export function along(board, extents, titles) {
  const above = new Array(board.rows).fill(0);
  const below = new Array(board.rows).fill(0);
  const hasTop = new Array(board.rows).fill(0);
  const hasBottom = new Array(board.rows).fill(0);
  for (const one of extents) {
    hasTop[one.high] = hasBottom[one.low] = 1;
    above[one.high] = Math.max(above[one.high], one.above);
    below[one.low] = Math.max(below[one.low], one.below);
  }
  const tops = new Map();
  const bottoms = new Map();
  for (const { scope, low, high } of [...board.frames.values()].reverse()) {
    tops.set(scope, above[high] + FRAME_PAD + titles.above);
    bottoms.set(scope, below[low] + FRAME_PAD + titles.below);
    above[high] = Math.max(above[high], tops.get(scope));
    below[low] = Math.max(below[low], bottoms.get(scope));
  }
  const rows = [0];
  for (let lower = 0; lower + 1 < board.rows; lower++) {
    const gap = ROW_GAPS[hasTop[lower] + hasBottom[lower + 1]];
    rows.push(rows[lower] + above[lower] + gap + below[lower + 1]);
  }
  return { rows, above: tops, below: bottoms, top: rows.at(-1) + above.at(-1), bottom: -below[0] };
}
