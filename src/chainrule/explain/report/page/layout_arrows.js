// The arrows between what is seen: the legs of layouts, one after the other through open scopes.

import { VERTEX, connectionsFrom, exitCount, exitOf } from "./layout_index.js";

/**
 * All arrows of one pass: {source, target, points}; each end is {scope, vertex}, and the points are
 * in order of the forward pass.  Of several between the same two boxes the simplest one is there.
 * @param {object} indexed
 * @param {Map<number, object>} sizes of open scopes
 * @param {string} pass
 * @param {function(number, [number, number]): [number, number]} toPicture a point of a scope
 * @returns {object[]}
 */
export function arrowsOf(indexed, sizes, pass, toPicture) {
  const found = new Map();
  const drawn = new Map();
  const pointsOf = (leg) => {
    const name = `${leg.scope} ${leg.connection}`;
    if (!drawn.has(name)) {
      const points = legPoints(sizes.get(leg.scope), leg.connection, pass);
      drawn.set(name, points.map((point) => toPicture(leg.scope, point)));
    }
    return drawn.get(name);
  };
  for (const [scope, { layout, inside, [pass]: own }] of sizes) {
    if (!own) continue;
    layout.kinds.forEach((kind, vertex) => {
      if (kind !== VERTEX.ITEM && kind !== VERTEX.INNER) return;
      const source = { scope, vertex };
      const exits = kind === VERTEX.ITEM ? 0 : exitCount(layoutInside(indexed, scope, vertex));
      if (exits && inside.has(vertex)) return;
      for (let exit = 0; exit < Math.max(exits, 1); exit++) {
        for (const { way, target } of follow(indexed, sizes, pass, source, exit)) {
          const name = `${scope} ${vertex} ${target.scope} ${target.vertex}`;
          const points = joinedPoints(way.map(pointsOf));
          const known = found.get(name);
          if (!known || points.length < known.points.length) {
            found.set(name, { source, target, points });
          }
        }
      }
    });
  }
  return [...found.values()];
}

function layoutInside(indexed, scope, vertex) {
  return indexed.layouts[indexed.scopes[scope].things[vertex]];
}

/** The ways from a box to others; a way is a list of legs {scope, connection}. */
function follow(indexed, sizes, pass, { scope, vertex }, exit) {
  const found = [];
  const pending = [];
  const goOn = (way, into, from, port) => {
    const { layout, [pass]: own } = sizes.get(into);
    for (const connection of connectionsFrom(layout, from, port)) {
      if (own.legs[connection]) pending.push([...way, { scope: into, connection }]);
    }
  };
  goOn([], scope, vertex, exit);
  while (pending.length) {
    const way = pending.pop();
    const last = way.at(-1);
    const { layout, inside } = sizes.get(last.scope);
    const [, end, , entry] = layout.connections.slice(4 * last.connection);
    if (layout.kinds[end] === VERTEX.EXIT) {
      const around = indexed.scopes[last.scope].parent;
      goOn(way, around, indexed.standing[last.scope], end - exitOf(layout, 0));
    } else if (inside.has(end)) {
      goOn(way, inside.get(end).size.scope, entry, 0);
    } else {
      found.push({ way, target: { scope: last.scope, vertex: end } });
    }
  }
  return found;
}

/**
 * The points of a leg in its scope.  Where it joins an open scope, it ends at the frame, as high as
 * the port there.
 */
function legPoints(size, connection, pass) {
  const { layout, x, inside, [pass]: own } = size;
  const [from, to, exit, entry] = layout.connections.slice(4 * connection, 4 * connection + 4);
  const leg = own.legs[connection];
  const bent = leg.length !== 4;
  const offsets = bent ? leg.slice(3) : leg;
  const [first, lane, last] = bent ? leg : [null, null, null];
  let start = [x[from] + offsets[0], own.y[from] + offsets[1]];
  if (inside.has(from)) {
    const hasPorts = exitCount(size.inside.get(from).size.layout);
    start = hasPorts ? portOf(size, from, pass, 1, exit) : onFrame(size, from, pass, offsets);
  }
  let ends = [];
  for (let place = 2; place < offsets.length; place += 2) {
    ends.push([x[to] + offsets[place], own.y[to] + offsets[place + 1]]);
  }
  if (inside.has(to)) ends = [portOf(size, to, pass, -1, entry)];
  const points = [start];
  let height = start[1];
  if (first !== null) {
    points.push([size.across(first), height]);
    height = own.lane(connection, lane);
    points.push([size.across(first), height]);
  }
  if (last !== null) points.push([size.across(last), height], [size.across(last), ends[0][1]]);
  return [...points, ...ends];
}

/** Where an arrow meets the frame of an open scope: at its right side (1) an exit, or an entry. */
function portOf(size, vertex, pass, side, port) {
  const { size: inner } = size.inside.get(vertex);
  const place = side > 0 ? exitOf(inner.layout, port) : port;
  const height = size[pass].y[vertex] + inner[pass].y[place] - size.baseOf(vertex, pass);
  return [size.x[vertex] + (side * inner.width) / 2, height];
}

/** Where an arrow leaves the frame of an open scope without ports: there where it leaves its box. */
function onFrame(size, vertex, pass, [dx, dy]) {
  const { size: inner } = size.inside.get(vertex);
  const level = size[pass].y[vertex];
  if (dy < 0) return [size.x[vertex] + dx, level - size.baseOf(vertex, pass) + inner[pass].low];
  return [size.x[vertex] + inner.width / 2, level + dy];
}

/** One line through points, without those in the middle of straight pieces. */
function joinedPoints(parts) {
  const points = [];
  for (const point of parts.flat()) {
    const last = points.at(-1);
    if (last && Math.abs(last[0] - point[0]) + Math.abs(last[1] - point[1]) < NEAR) continue;
    if (points.length > 1 && isBetween(points.at(-2), last, point)) points.pop();
    points.push(point);
  }
  return points;
}

const NEAR = 0.02; // lengths are told in hundredths of a pixel

/** Whether a point is on the level or upright line from the one before to the one after. */
function isBetween(before, point, after) {
  return [0, 1].some((axis) => {
    return Math.abs(before[axis] - point[axis]) < NEAR && Math.abs(point[axis] - after[axis]) < NEAR;
  });
}
