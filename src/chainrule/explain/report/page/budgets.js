// Budgets of memory: the plans that were found, and what each computes again.

import { bytesText, countText, counted, percentText } from "./words.js";

/**
 * @param {any} data of the schema chainrule.report/1
 * @returns {Budgets|null} null where no budgets were planned
 */
export function createBudgets(data) {
  return data.tradeoff ? new Budgets(data) : null;
}

/** `points` go from the plan of the page to the least bytes; the state `budget` is a place in them. */
export class Budgets {
  constructor(data) {
    this.data = data;
    this.points = data.tradeoff.points;
    this.rows = data.tradeoff.rows;
    this.highest = data.tradeoff.highest; // of extra time, that a picture has room for
    const now = new Set();
    this.places = this.points.map(({ adds, drops }) => {
      for (const place of drops) now.delete(place);
      for (const place of adds) now.add(place);
      return [...now].sort((one, other) => one - other);
    });
  }

  /**
   * What a plan computes again, the most bytes first.
   * @param {number} budget
   * @returns {any[]}
   */
  rowsAt(budget) {
    return this.places[budget].map((place) => this.rows[place]);
  }

  /**
   * What a plan computes again of a value.
   * @param {number} budget
   * @param {number} id
   */
  rowOf(budget, id) {
    return this.rowsAt(budget).find(({ values }) => values.includes(id)) ?? null;
  }

  /**
   * The place of the quickest plan within an amount; the last where none is.
   * @param {number} nbytes
   * @returns {number}
   */
  within(nbytes) {
    const found = this.points.findIndex((point) => point.needed_nbytes <= nbytes);
    return found < 0 ? this.points.length - 1 : found;
  }

  /**
   * The boxes that show what a plan computes again, each with how much of it is in the box.
   * @param {number} budget
   * @param {import("./scopes.js").Scopes} scopes
   * @param {Set<string>} open
   * @returns {Map<string, number>}
   */
  boxes(budget, scopes, open) {
    const found = new Map();
    for (const { values, steps } of this.rowsAt(budget)) {
      const squares = values.map((id) => scopes.keyOf(id));
      const circles = steps.map((step) => this.data.steps[step].circle);
      const keys = [...squares, ...circles].filter((key) => scopes.numberOf.has(key));
      for (const key of new Set(keys.map((one) => scopes.shownAs(open, one)))) {
        found.set(key, (found.get(key) ?? 0) + 1);
      }
    }
    return found;
  }
}

/**
 * `44.2 MiB of 123 MiB · 42 % longer`.
 * @param {Budgets} budgets
 * @param {number} budget
 * @returns {string}
 */
export function budgetText(budgets, budget) {
  const { needed_nbytes: needed, extra } = budgets.points[budget];
  const most = budgets.points[0].needed_nbytes;
  if (!budget) return `${bytesText(needed)} as planned`;
  return `${apart(needed, most).join(" of ")} · ${moreText(extra)} longer`;
}

/**
 * The same, and how much is computed again.
 * @param {Budgets} budgets
 * @param {number} budget
 * @returns {string}
 */
export function spokenBudget(budgets, budget) {
  return `${budgetText(budgets, budget)} · ${againText(budgets, budget)}`;
}

/**
 * `4.7 %`, `170 %`.
 * @param {number} extra
 * @returns {string}
 */
export function moreText(extra) {
  return extra < 1 ? percentText(extra) : `${countText(Math.round(100 * extra))} %`;
}

/**
 * Two amounts in words that differ where the amounts do.
 * @param {number} less
 * @param {number} more
 * @returns {[string, string]}
 */
export function apart(less, more) {
  const [one, other] = [bytesText(less), bytesText(more)];
  return one === other && less !== more
    ? [countText(less), `${countText(more)} bytes`]
    : [one, other];
}

/**
 * `6 values and parts of 3 computed again`.
 * @param {Budgets} budgets
 * @param {number} budget
 * @returns {string}
 */
export function againText(budgets, budget) {
  const rows = budgets.rowsAt(budget);
  const values = new Set(rows.flatMap((row) => row.values)).size;
  const parts = rows.filter((row) => !row.values.length).length;
  const found = [
    values && counted(values, "value"),
    parts && `parts of ${values ? countText(parts) : counted(parts, "value")}`,
    budgets.points[budget].in_loops && "states of loops",
  ].filter(Boolean);
  return found.length ? `${found.join(" and ")} computed again` : "nothing computed again";
}

/**
 * `31 µs`, `4.6 ms`, `2 s`.
 * @param {number} nanoseconds
 * @returns {string}
 */
export function timeText(nanoseconds) {
  const units = ["ns", "µs", "ms", "s"];
  let [value, place] = [nanoseconds, 0];
  while (value >= 999.5 && place < units.length - 1) {
    value /= 1000;
    place += 1;
  }
  return `${Number(value.toPrecision(value < 10 ? 2 : 3))} ${units[place]}`;
}
