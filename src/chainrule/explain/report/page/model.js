// The values and steps of a report, found by name and by place in the order of computation.

const NEVER = Infinity;

/**
 * What the data say, with the ways back: from names to values, from values to steps.
 * @param {any} data of the schema chainrule.report/1
 * @returns {Model}
 */
export function createModel(data) {
  return new Model(data);
}

/** Values by id and name; `madeBy[id]` and `freedBy[id]` are numbers of steps, from 1. */
export class Model {
  constructor(data) {
    this.data = data;
    this.values = data.values;
    this.steps = data.steps;
    this.idOf = new Map(data.values.map((value, id) => [value.name, id]));
    this.madeBy = new Array(data.values.length).fill(0);
    this.freedBy = new Array(data.values.length).fill(NEVER);
    this.stepOfCircle = new Map(data.steps.map((step, place) => [step.circle, place + 1]));
    data.steps.forEach((step, place) => this.#note(step, place + 1));
    this.largest = largestBytes(data.values);
  }

  #note(step, number) {
    for (const id of step.writes) this.madeBy[id] = number;
    for (const id of step.frees) this.freedBy[id] = number;
  }

  /**
   * What a step is about: the first value that it writes, or else the one it is named after.
   * @param {number} number of the step, from 1
   * @returns {number|null}
   */
  valueOfStep(number) {
    const step = this.step(number);
    return step ? (step.writes[0] ?? step.value) : null;
  }

  /**
   * The step with a number from 1; undefined for 0.
   * @param {number} number
   */
  step(number) {
    return this.steps[number - 1];
  }

  /**
   * `later`, `now`, `there` or `freed`: a value when the steps up to `cursor` are done.
   * At cursor 0 nothing has a state: everything is `there`.
   * @param {number} id
   * @param {number} cursor
   * @returns {"later"|"now"|"there"|"freed"}
   */
  stateOf(id, cursor) {
    if (cursor === 0) return "there";
    if (this.madeBy[id] > cursor) return "later";
    if (this.madeBy[id] === cursor) return "now";
    return this.freedBy[id] < cursor ? "freed" : "there";
  }

  /**
   * The number of the last step whose instruction is not after `instruction`.
   * @param {number} instruction
   * @returns {number}
   */
  stepAt(instruction) {
    let low = 0;
    let high = this.steps.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.steps[middle - 1].instruction <= instruction) low = middle;
      else high = middle - 1;
    }
    return Math.max(low, Math.min(1, this.steps.length));
  }

  /**
   * The number of the step at which most bytes are live; 0 where nothing is known.
   * @returns {number}
   */
  get peakStep() {
    const memory = this.data.memory;
    return memory && memory.peak_step !== null ? memory.peak_step + 1 : 0;
  }
}

function largestBytes(values) {
  return values.reduce((most, { nbytes }) => {
    return typeof nbytes === "number" ? Math.max(most, nbytes) : most;
  }, 0);
}
