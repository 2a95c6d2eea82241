// Where everything in a drawing stands, in pixels, for the scopes that are open.

import { boardOf } from "./layout_board.js";
import { closeRows } from "./layout_close.js";
import { indexFor, mirroredKey } from "./layout_index.js";
import { UPWARD, mirrorOf } from "./layout_kept.js";
import { across, along, extentsOf, sizesOf } from "./layout_metrics.js";
import { Room } from "./layout_routes.js";
import { Sheet } from "./layout_sheet.js";
import { piecesOf } from "./layout_tracks.js";
import { viewOf } from "./layout_view.js";

const COPY_HEIGHT = 34; // of the small copies of values that the backward band reads
const BETWEEN_PASSES = 80; // between a band and a further one

/**
 * The places of all that is seen.  A box has `item`, what it shows (a folded scope: its `box` or
 * `mirror`), and `scope`, the folded scope (else null); `mirrored` says that it is in the backward
 * band.  Arrows have points from border to border.  The keys of boxes are those of items and
 * scopes; "backward of ..." are those below folded scopes.
 * @param {object} drawing
 * @param {Set<string>} open the keys of open scopes
 * @returns {{boxes: Map<string, object>, frames: object[], arrows: object[], copies: object[],
 *   spans: [number, number][], width: number, height: number}}
 */
export function layoutOf(drawing, open) {
  const sheet = new Sheet(drawing);
  for (const indexed of indexFor(drawing).bands) {
    if (!indexed.band.count) continue;
    const view = viewOf(indexed, open);
    const board = boardOf(view);
    closeRows(board);
    const pieces = piecesOf(board.stretches, board.columns);
    const forward = new Map(view.spots.map(({ spot, forward: shape }) => [spot, shape]));
    if (indexed.mirror) {
      drawPair(sheet, view, board, pieces, forward);
    } else {
      const top = sheet.bottom + (sheet.spans.length ? BETWEEN_PASSES : 0);
      sheet.addBand(singleRoom(board, pieces, forward), top);
    }
  }
  return sheet.placement();
}

/** The room of a band that nothing mirrors. */
function singleRoom(board, pieces, shapes) {
  const acrossed = across(board, pieces.tracks, sizesOf(board, shapes));
  const alonged = along(board, extentsOf(board, shapes), UPWARD);
  return new Room(board, pieces, acrossed, alonged, shapes);
}

/** A band and its mirror image. */
function drawPair(sheet, view, board, pieces, forward) {
  const backward = new Map();
  for (const { spot, backward: shape } of view.spots) if (shape) backward.set(spot, shape);
  const numbers = [...board.ways.keys()].filter((number) => board.ways[number].backward);
  const kept = view.kept.map((one) => ({
    ...one,
    copy: { width: forward.get(one.source).copy, height: COPY_HEIGHT },
  }));
  const ways = numbers.map((number) => board.ways[number].backward);
  const found = mirrorOf({ board, pieces, forward, backward, ways, kept });
  sheet.addBand(found.above, 0);
  sheet.addMirrored(found, numbers, kept, found.upper.top - found.middle);
}

/**
 * The key of the box that shows an item or a scope now: its own, or that of the outermost folded
 * scope around it.
 * @param {object} drawing
 * @param {Set<string>} open
 * @param {string} key
 * @returns {string}
 */
export function boxOf(drawing, open, key) {
  for (const outer of pathTo(drawing, key)) {
    if (!open.has(outer)) return isMirrored(drawing, key) ? mirroredKey(outer) : outer;
  }
  return key;
}

/**
 * The keys of the scopes around an item or a scope, from outside to inside.
 * @param {object} drawing
 * @param {string} key
 * @returns {string[]}
 */
export function pathTo(drawing, key) {
  const index = indexFor(drawing);
  const item = index.items.get(key);
  const scope = index.scopes.get(key);
  const { band } = item ?? scope ?? {};
  if (!band) return [];
  const path = [];
  let around = item ? band.home[item.number] : band.scopes[scope.scope].parent;
  while (around > 0) {
    path.push(band.scopes[around].key);
    around = band.scopes[around].parent;
  }
  return path.reverse();
}

function isMirrored(drawing, key) {
  const index = indexFor(drawing);
  return (index.items.get(key) ?? index.scopes.get(key))?.mirrored ?? false;
}

/** The scope of a key (also of the box below it), or null. */
export function scopeOf(drawing, key) {
  const found = indexFor(drawing).scopes.get(key);
  return found ? found.band.scopes[found.scope] : null;
}
