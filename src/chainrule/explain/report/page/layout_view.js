// What is seen of a band: the boxes of open scopes, and the arrows between them.

import { VERTEX, bandsOf, connectionsFrom, mirroredKey } from "./layout_index.js";

const MOST_CONNECTIONS = 2 ** 24; // of one scope

/**
 * A box that is seen: an item, or a folded scope (`scope`, else -1).
 * @typedef {{spot: number, item: number, scope: number, within: number, vertex: number,
 *   forward: object, backward: object|null}} Spot
 */

/**
 * The spots of a band and the ways of its arrows.  A way is a list of legs, each a connection of
 * one scope (`scope`, `connection`; ordered by `name`); equal arrows are there once.
 * @param {object} indexed one of the index's bands
 * @param {Set<string>} open the keys of open scopes
 * @returns {object}
 */
export function viewOf(indexed, open) {
  const view = { indexed, visible: visibleScopes(indexed, open), spots: [] };
  view.isVisible = new Set(view.visible);
  view.ofItem = new Map();
  view.ofScope = new Map();
  for (const scope of view.visible) addSpots(view, scope);
  addArrows(view);
  addKept(view);
  return view;
}

/** The grid of a scope. @returns {object} */
export function gridOf(indexed, scope) {
  return indexed.drawing.grids[indexed.scopes[scope].grid];
}

/** The scopes that are open and in open ones, outer ones first. */
function visibleScopes(indexed, open) {
  const found = [];
  const pending = [0];
  while (pending.length) {
    const scope = pending.pop();
    found.push(scope);
    const { kinds } = gridOf(indexed, scope);
    indexed.scopes[scope].things.forEach((thing, vertex) => {
      const isOpen = kinds[vertex] === VERTEX.INNER && open.has(indexed.scopes[thing].key);
      if (isOpen) pending.push(thing);
    });
  }
  return found.sort((one, other) => one - other);
}

function addSpots(view, within) {
  const { indexed } = view;
  const { items } = indexed.drawing;
  const { kinds } = gridOf(indexed, within);
  indexed.scopes[within].things.forEach((thing, vertex) => {
    const spot = view.spots.length;
    if (kinds[vertex] === VERTEX.ITEM) {
      const below = indexed.below.get(thing);
      view.ofItem.set(thing, spot);
      view.spots.push({
        spot,
        item: thing,
        scope: -1,
        within,
        vertex,
        forward: items[indexed.band.first + thing],
        backward: below === undefined ? null : items[indexed.mirror.first + below],
      });
    } else if (kinds[vertex] === VERTEX.INNER && !view.isVisible.has(thing)) {
      const { key, box, mirror } = indexed.scopes[thing];
      const backward = mirror ? { ...mirror, key: mirroredKey(key) } : null;
      view.ofScope.set(thing, spot);
      view.spots.push({
        spot,
        item: -1,
        scope: thing,
        within,
        vertex,
        forward: { ...box, key },
        backward,
      });
    }
  });
}

/** The spot where an item is seen: itself, or the outermost folded scope around it. */
export function spotOf(view, item) {
  let scope = view.indexed.home[item];
  if (view.isVisible.has(scope)) return view.ofItem.get(item);
  while (!view.ofScope.has(scope)) scope = view.indexed.scopes[scope].parent;
  return view.ofScope.get(scope);
}

/** Walks from every spot along connections to the spots where they end. */
function addArrows(view) {
  view.arrows = new Map(); // source and target -> {source, target, forward: way, backward: way}
  for (const { spot, scope, within, vertex } of view.spots) {
    const grid = gridOf(view.indexed, within);
    const exits = scope < 0 ? 1 : gridOf(view.indexed, scope).exit_rows.length;
    for (let exit = 0; exit < exits; exit++) {
      for (const connection of connectionsFrom(grid, vertex, exit)) {
        follow(view, spot, within, connection);
      }
    }
  }
}

function follow(view, source, scope, connection) {
  const { indexed } = view;
  const pending = [[legOf(scope, connection)]];
  while (pending.length) {
    const way = pending.pop();
    const last = way.at(-1);
    const one = indexed.scopes[last.scope];
    const grid = gridOf(indexed, last.scope);
    const end = grid.connections[4 * last.connection + 1];
    const thing = one.things[end];
    let next = null; // the scope and the vertex (and exit) where it goes on
    if (grid.kinds[end] === VERTEX.ITEM) {
      addArrow(view, source, view.ofItem.get(thing), way);
    } else if (grid.kinds[end] === VERTEX.EXIT) {
      const exit = end - (grid.kinds.length - grid.exit_rows.length);
      next = [one.parent, indexed.standing[last.scope], exit];
    } else if (view.isVisible.has(thing)) {
      next = [thing, grid.connections[4 * last.connection + 3], 0];
    } else {
      addArrow(view, source, view.ofScope.get(thing), way);
    }
    if (next) {
      const [into, vertex, exit] = next;
      const further = connectionsFrom(gridOf(indexed, into), vertex, exit);
      for (const number of [...further].reverse()) {
        pending.push([...way, legOf(into, number)]);
      }
    }
  }
}

function legOf(scope, connection) {
  return { scope, connection, name: scope * MOST_CONNECTIONS + connection };
}

/** Of equal arrows the first one stays; one that both bands can share is better. */
function addArrow(view, source, target, way) {
  const last = way.at(-1);
  const scope = view.indexed.scopes[last.scope];
  const drawn = bandsOf(view.indexed, scope, last.connection);
  const name = source * view.spots.length + target;
  const known = view.arrows.get(name);
  if (!known) {
    const forward = drawn & 1 ? way : null;
    view.arrows.set(name, { source, target, forward, backward: drawn & 2 ? way : null });
  } else if (drawn === 3 && known.forward !== known.backward) {
    known.forward = known.backward = way;
  } else {
    if (drawn & 1) known.forward ??= way;
    if (drawn & 2) known.backward ??= way;
  }
}

/** What the backward band reads of the forward band, by the spots where it is seen. */
function addKept(view) {
  const { indexed } = view;
  const places = view.visible.flatMap((scope) => indexed.kept.get(scope) ?? []);
  const found = new Map();
  for (const place of places.sort((one, other) => one - other)) {
    const [from, own, saved] = indexed.mirror.kept[place];
    const source = spotOf(view, from);
    const target = spotOf(view, indexed.mirror.under[own]);
    const name = source * view.spots.length + target;
    if (!found.has(name)) found.set(name, { source, target, saved: new Set() });
    for (const one of saved) found.get(name).saved.add(one);
  }
  view.kept = [...found.values()].map(({ source, target, saved }) => ({
    source,
    target,
    nbytes: sumOfKnown([...saved].map((one) => indexed.drawing.saved[one])),
  }));
}

function sumOfKnown(numbers) {
  return numbers.includes(null) ? null : numbers.reduce((sum, one) => sum + one, 0);
}
