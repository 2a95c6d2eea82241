// The bytes of each instruction as a stack of bands: the largest values one by one, the rest by kind.

const KINDS_FROM_BELOW = ["parameters", "carried state", "optimizer state", "inputs", "constants"];

/**
 * `low` and `high` are the bytes below and up to the top of the band, for each column.
 * @typedef {Object} Band
 * @property {boolean} [isRest]
 * @property {number|null} value
 * @property {string} label
 * @property {string} kind
 * @property {number} nbytes
 * @property {number} first column
 * @property {number} last column
 * @property {Float64Array} low from `first` on
 * @property {Float64Array} high from `first` on
 */

/**
 * Columns are instructions, or of many instructions those with most bytes.
 * @param {any} memory
 * @param {number} most columns
 * @returns {{columns: number[], bands: Band[], top: number}}
 */
export function stackOf(memory, most) {
  const columns = columnsOf(memory.live, most);
  const floor = new Float64Array(columns.length);
  const lives = [...memory.lives].sort(
    (one, other) => rank(one) - rank(other) || one.first - other.first || other.nbytes - one.nbytes,
  );
  const bands = lives.map((life) => bandOf(life, columns, floor)).filter(Boolean);
  for (const [kind, nbytes] of Object.entries(memory.rest)) {
    const band = restOf(kind, nbytes, columns, floor);
    if (band) bands.push(band);
  }
  return { columns, bands, top: Math.max(...floor, memory.peak_nbytes, 1) };
}

function rank(life) {
  const place = KINDS_FROM_BELOW.indexOf(life.kind);
  return place < 0 ? KINDS_FROM_BELOW.length : place;
}

function columnsOf(live, most) {
  if (live.length <= most) return live.map((_, instruction) => instruction);
  const columns = [];
  for (let place = 0; place < most; place += 1) {
    const from = Math.floor((place * live.length) / most);
    const to = Math.floor(((place + 1) * live.length) / most);
    let best = from;
    for (let at = from + 1; at < to; at += 1) if (live[at] > live[best]) best = at;
    columns.push(best);
  }
  return columns;
}

function bandOf(life, columns, floor) {
  const alive = (column) => life.first <= columns[column] && columns[column] <= life.last;
  let first = 0;
  while (first < columns.length && !alive(first)) first += 1;
  let last = first;
  while (last < columns.length && alive(last)) last += 1;
  if (first === last) return null;
  const low = floor.slice(first, last);
  for (let at = first; at < last; at += 1) floor[at] += life.nbytes;
  return { ...life, first, last: last - 1, low, high: floor.slice(first, last) };
}

/**
 * What the sum of smaller values of a kind is called.
 * @param {string} kind
 * @returns {string}
 */
export function restLabel(kind) {
  return kind === "workspace" ? kind : `smaller ${kind}`;
}

function restOf(kind, nbytes, columns, floor) {
  if (!columns.some((instruction) => nbytes[instruction] > 0)) return null;
  const low = floor.slice();
  columns.forEach((instruction, column) => (floor[column] += nbytes[instruction]));
  const most = Math.max(...columns.map((instruction) => nbytes[instruction]));
  const last = columns.length - 1;
  const label = restLabel(kind);
  const sums = { first: 0, last, low, high: floor.slice() };
  return { isRest: true, value: null, label, kind, nbytes: most, ...sums };
}

/**
 * The column of an instruction.
 * @param {number[]} columns
 * @param {number} instruction
 * @returns {number}
 */
export function columnAt(columns, instruction) {
  let low = 0;
  let high = columns.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (columns[middle] < instruction) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * What is in memory at an instruction, largest first; at the peak with what alignment and gaps take,
 * so that the sum is the peak.
 * @param {any} memory
 * @param {number} instruction
 * @returns {{value: number|null, label: string, kind: string, nbytes: number, first?: number}[]}
 */
export function aliveAt(memory, instruction) {
  const found = memory.lives.filter(
    (life) => life.first <= instruction && instruction <= life.last,
  );
  for (const [kind, nbytes] of Object.entries(memory.rest)) {
    const rest = {
      isRest: true,
      value: null,
      label: restLabel(kind),
      kind,
      nbytes: nbytes[instruction],
    };
    if (rest.nbytes) found.push(rest);
  }
  const padding = memory.peak_nbytes - memory.live[instruction];
  if (instruction === memory.peak_instruction && padding > 0) {
    found.push({ isRest: true, value: null, label: "padding", kind: "padding", nbytes: padding });
  }
  return found.sort((one, other) => other.nbytes - one.nbytes);
}
