// Parts of rows that settle downward: what stood above another stays above it.

export const ROW_STRIDE = 2 ** 24; // row * ROW_STRIDE + column names a cell

/** Parts of rows, each in one column or all along a frame, and what has to be above what. */
export class RowParts {
  constructor() {
    this.rows = []; // of each part
    this.ranks = []; // the order of parts of one row
    this.joined = []; // another part that stays level with it; itself
    this.parts = new Map(); // of cells, by row and column
    this.columns = new Map(); // of each column, {row, bottom, top, owner}
    this.above = []; // [lower, higher, least]
  }

  /** A new part, that no column has. @returns {number} */
  add(row, rank) {
    this.rows.push(row);
    this.ranks.push(rank);
    this.joined.push(this.joined.length);
    return this.rows.length - 1;
  }

  /** The part of a row in a column, which only its owner can have. @returns {number} */
  cell(row, column, owner) {
    const name = row * ROW_STRIDE + column;
    if (!this.parts.has(name)) {
      const part = this.add(row, 0);
      this.parts.set(name, part);
      this.stand(column, { row, bottom: part, top: part, owner });
    }
    return this.parts.get(name);
  }

  /** Takes note of what stands in a column, from the part `bottom` to the part `top`. */
  stand(column, one) {
    if (!this.columns.has(column)) this.columns.set(column, []);
    this.columns.get(column).push(one);
  }

  /** The part that stands for one and all that stay level with it. @returns {number} */
  find(part) {
    let one = part;
    while (this.joined[one] !== one) {
      this.joined[one] = this.joined[this.joined[one]];
      one = this.joined[one];
    }
    return one;
  }

  /** Two parts of one row stay level. */
  join(one, other) {
    this.joined[this.find(one)] = this.find(other);
  }

  /** One part is never below another one. */
  raise(lower, higher) {
    this.above.push([lower, higher, 0]);
  }

  /**
   * The new row of each cell, as low as can be.  Rows settle only at `folded`, the rows {low, high}
   * of folded scopes before: elsewhere all keep their distances.
   */
  settled(folded) {
    const floors = floorsOf(this.rows, folded);
    const higher = new Map(); // [part, distance]
    for (const [low, high, least] of [...this.above, ...this.neighbours()]) {
      const [lower, upper] = [this.find(low), this.find(high)];
      if (lower === upper) continue;
      const distance = floors.get(this.rows[upper]) - floors.get(this.rows[lower]);
      if (!higher.has(lower)) higher.set(lower, []);
      higher.get(lower).push([upper, Math.max(least, distance)]);
    }
    const order = this.rows.map((_, part) => part).filter((part) => this.find(part) === part);
    order.sort((one, other) => {
      return this.rows[one] - this.rows[other] || this.ranks[one] - this.ranks[other];
    });
    const levels = new Map(order.map((part) => [part, floors.get(this.rows[part])]));
    for (const part of order) {
      for (const [upper, distance] of higher.get(part) ?? []) {
        levels.set(upper, Math.max(levels.get(upper), levels.get(part) + distance));
      }
    }
    const cells = order.filter((part) => this.ranks[part] === 0);
    const used = [...new Set(cells.map((part) => levels.get(part)))];
    used.sort((one, other) => one - other);
    const places = new Map(used.map((level, place) => [level, place]));
    return this.rows.map((_, part) => places.get(levels.get(this.find(part))));
  }

  /** In every column, what is above what; parts of different owners are a row apart. */
  *neighbours() {
    for (const several of this.columns.values()) {
      several.sort((one, other) => one.row - other.row);
      for (let place = 1; place < several.length; place++) {
        const [lower, upper] = [several[place - 1], several[place]];
        yield [lower.top, upper.bottom, lower.owner === upper.owner ? 0 : 1];
      }
    }
  }
}

/** How far up each row is if rows at folded scopes take no room. @returns {Map<number, number>} */
function floorsOf(rows, folded) {
  const used = [...new Set(rows)].sort((one, other) => one - other);
  const change = new Array(used.length + 2).fill(0);
  for (const { low, high } of folded) {
    if (low === high) continue;
    change[firstFrom(used, low) + 1] += 1;
    change[Math.max(firstFrom(used, high + 1), firstFrom(used, low)) + 1] -= 1;
  }
  const floors = new Map();
  let depth = 0;
  let floor = 0;
  used.forEach((row, place) => {
    depth += change[place];
    if (place && !depth) floor += 1;
    floors.set(row, floor);
  });
  return floors;
}

/** The place of the first number that is not below `least`. @returns {number} */
export function firstFrom(ascending, least) {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
