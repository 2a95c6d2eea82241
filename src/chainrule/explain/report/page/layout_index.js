// What is where in a drawing: made once for each, when it is first shown.

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

/** Of each item its scope (`home`), of each scope its vertex in that around it (`standing`). */
function bandIndex(drawing, band, mirror) {
  const { scopes } = band;
  const home = new Int32Array(band.count);
  const standing = new Int32Array(scopes.length);
  const layouts = scopes.map((scope) => drawing.layouts[scope.layout]);
  scopes.forEach(({ things }, number) => {
    const { kinds } = layouts[number];
    things.forEach((thing, vertex) => {
      if (kinds[vertex] === VERTEX.ITEM) home[thing] = number;
      else if (kinds[vertex] === VERTEX.INNER) standing[thing] = vertex;
    });
  });
  const below = new Map(); // number of an item -> that of the backward item below it
  mirror?.under.forEach((number, own) => below.set(number, own));
  return { drawing, band, mirror, scopes, layouts, home, standing, below };
}

const outgoingOf = new WeakMap();

/** The connections of a layout that leave a vertex (a scope inside: one of its exits). */
export function connectionsFrom(layout, vertex, exit) {
  if (!outgoingOf.has(layout)) {
    const found = new Map();
    const { connections, kinds } = layout;
    for (let place = 0; place < connections.length; place += 4) {
      const name = connections[place] + kinds.length * connections[place + 2];
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(place / 4);
    }
    outgoingOf.set(layout, found);
  }
  return outgoingOf.get(layout).get(vertex + layout.kinds.length * exit) ?? [];
}

/** The vertex of an entry or an exit of a layout, by its number. @returns {number} */
export function exitOf({ kinds }, exit) {
  return kinds.indexOf(VERTEX.EXIT) + exit; // ports are the first and the last vertices
}

/** How many exits a layout has. */
export function exitCount({ kinds }) {
  const first = kinds.indexOf(VERTEX.EXIT);
  return first < 0 ? 0 : kinds.length - first;
}
