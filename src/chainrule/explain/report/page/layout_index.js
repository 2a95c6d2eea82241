// What is where in a drawing: made once for each, when it is first laid out.

export const VERTEX = { ENTRY: 0, ITEM: 1, INNER: 2, EXIT: 3 }; // what stands at one of a scope
const drawingIndexes = new WeakMap();

/** The index of a drawing. @param {object} drawing @returns {object} */
export function indexFor(drawing) {
  if (!drawingIndexes.has(drawing)) drawingIndexes.set(drawing, makeIndex(drawing));
  return drawingIndexes.get(drawing);
}

function makeIndex(drawing) {
  const scopes = new Map(); // key -> {band, scope, mirrored}
  const items = new Map(); // key -> {band, number, mirrored}
  const bands = drawing.bands.map((band, place) => {
    const mirror = drawing.backward?.band === place ? drawing.backward : null;
    const found = bandIndex(drawing, band, mirror);
    for (let number = 0; number < band.count; number++) {
      items.set(drawing.items[band.first + number].key, { band: found, number, mirrored: false });
    }
    mirror?.under.forEach((number, own) => {
      items.set(drawing.items[mirror.first + own].key, { band: found, number, mirrored: true });
    });
    band.scopes.forEach((scope, number) => {
      if (number === 0) return;
      scopes.set(scope.key, { band: found, scope: number, mirrored: false });
      if (scope.mirror) {
        scopes.set(mirroredKey(scope.key), { band: found, scope: number, mirrored: true });
      }
    });
    return found;
  });
  return { bands, scopes, items };
}

/** The key of the box below a folded scope. @param {string} key @returns {string} */
export function mirroredKey(key) {
  return `backward of ${key}`;
}

function bandIndex(drawing, band, mirror) {
  const { scopes } = band;
  const home = new Int32Array(band.count); // of each item, its scope
  const standing = new Int32Array(scopes.length); // of each scope, its vertex in that around it
  const depth = new Int32Array(scopes.length);
  scopes.forEach((scope, number) => {
    depth[number] = number ? depth[scope.parent] + 1 : 0;
    const { kinds } = drawing.grids[scope.grid];
    scope.things.forEach((thing, vertex) => {
      if (kinds[vertex] === VERTEX.ITEM) home[thing] = number;
      else if (kinds[vertex] === VERTEX.INNER) standing[thing] = vertex;
    });
  });
  const below = new Map(); // number of an item -> that of the backward item below it
  mirror?.under.forEach((number, own) => below.set(number, own));
  return {
    drawing,
    band,
    mirror,
    scopes,
    home,
    standing,
    depth,
    below,
    kept: keptByScope(mirror, home, scopes, depth),
  };
}

/** The places in `kept` by the innermost scope around both ends. */
function keptByScope(mirror, home, scopes, depth) {
  const found = new Map();
  mirror?.kept.forEach(([source, target], place) => {
    let one = home[source];
    let other = home[mirror.under[target]];
    while (one !== other) {
      if (depth[one] >= depth[other]) one = scopes[one].parent;
      else other = scopes[other].parent;
    }
    if (!found.has(one)) found.set(one, []);
    found.get(one).push(place);
  });
  return found;
}

const outgoingOf = new WeakMap();

/** The connections of a grid that leave a vertex (an inner scope: one of its exits). */
export function connectionsFrom(grid, vertex, exit) {
  if (!outgoingOf.has(grid)) {
    const found = new Map();
    const { connections, kinds } = grid;
    for (let place = 0; place < connections.length; place += 4) {
      const name = connections[place] + kinds.length * connections[place + 2];
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(place / 4);
    }
    outgoingOf.set(grid, found);
  }
  return outgoingOf.get(grid).get(vertex + grid.kinds.length * exit) ?? [];
}

/** In which bands a connection is drawn: 1 forward, 2 backward, 3 both. @returns {number} */
export function bandsOf(bandIndexed, scope, connection) {
  if (!bandIndexed.mirror) return 1;
  if (scope.forward_only && includesSorted(scope.forward_only, connection)) return 1;
  if (scope.backward_only && includesSorted(scope.backward_only, connection)) return 2;
  return 3;
}

function includesSorted(ascending, number) {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < number) low = middle + 1;
    else high = middle;
  }
  return ascending[low] === number;
}
