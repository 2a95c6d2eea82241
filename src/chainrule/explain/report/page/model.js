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

/**
 * Values by id and name; `madeBy[id]` and `freedBy[id]` are numbers of steps, from 1: of the step
 * after which a value is there as a whole, and after which it is needed no more.
 */
export class Model {
  constructor(data) {
    withLabels(data);
    this.data = data;
    this.values = data.values;
    this.steps = data.steps;
    this.idOf = new Map(data.values.map((value, id) => [value.name, id]));
    this.madeBy = new Array(data.values.length).fill(0);
    this.freedBy = new Array(data.values.length).fill(NEVER);
    this.addedBy = new Map();
    this.stepOfCircle = new Map(data.steps.map((step, place) => [step.circle, place + 1]));
    data.steps.forEach((step, place) => this.#note(step, place + 1));
    this.largest = largestBytes(data.values);
    this.equationCount = data.values.reduce(
      (most, { equation }) => Math.max(most, equation?.number ?? 0),
      0,
    );
  }

  #note(step, number) {
    for (const id of step.writes) this.madeBy[id] = number;
    for (const id of step.frees) this.freedBy[id] = number;
    for (const id of step.adds) this.addedBy.set(id, [...(this.addedBy.get(id) ?? []), number]);
  }

  /**
   * What a step is about: the first value that it makes, as a whole or a part of it, or else the
   * one it is named after.
   * @param {number} number of the step, from 1
   * @returns {number|null}
   */
  valueOfStep(number) {
    const step = this.step(number);
    return step ? (step.writes[0] ?? step.adds[0] ?? step.value) : null;
  }

  /**
   * The numbers of the steps that make a value: several where each makes a term of a gradient.
   * @param {number} id
   * @returns {number[]}
   */
  makersOf(id) {
    return this.madeBy[id] ? [...(this.addedBy.get(id) ?? []), this.madeBy[id]] : [];
  }

  /**
   * The loop or the choice that a step computes.
   * @param {number|undefined} number of the step, from 1
   * @returns {any} `loop` of one of its results, or null
   */
  loopOfStep(number) {
    const result = this.steps[number - 1]?.loop ?? null;
    return result === null ? null : this.values[result].loop;
  }

  /**
   * The step with a number from 1; undefined for 0.
   * @param {number} number
   */
  step(number) {
    return this.steps[number - 1];
  }

  /**
   * `later`, `begun` (some of its terms are there), `now`, `there` or `freed`: a value when the
   * steps up to `cursor` are done.  At cursor 0 nothing has a state: everything is `there`.
   * @param {number} id
   * @param {number} cursor
   * @returns {"later"|"begun"|"now"|"there"|"freed"}
   */
  stateOf(id, cursor) {
    if (cursor === 0) return "there";
    if (this.madeBy[id] > cursor) return this.makersOf(id)[0] <= cursor ? "begun" : "later";
    if (this.madeBy[id] === cursor) return "now";
    return this.freedBy[id] < cursor ? "freed" : "there";
  }

  /**
   * The number of the step during which an instruction is done, as `peak_step` counts them: of
   * the last one that has begun; the first also takes what is before it.
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
   * The first and the last of the steps that begin with the same instruction as a step.
   * @param {number} number of the step, from 1
   * @returns {[number, number]}
   */
  together(number) {
    const same = (at) => this.steps[at - 1]?.instruction === this.steps[number - 1]?.instruction;
    let [first, last] = [number, number];
    if (!this.data.memory) return [first, last];
    while (first > 1 && same(first - 1)) first -= 1;
    while (last < this.steps.length && same(last + 1)) last += 1;
    return [first, last];
  }

  /**
   * The step that makes the largest of what is made by an instruction; at the peak that of the peak,
   * and where nothing is made that is listed, the step during which it is done.
   * @param {number} instruction
   * @returns {number}
   */
  makerAt(instruction) {
    if (this.peakStep && instruction === this.data.memory.peak_instruction) return this.peakStep;
    const made = this.data.memory.lives.filter(
      ({ first, step }) => first === instruction && step !== null,
    );
    const largest = made.reduce((most, one) => (one.nbytes > (most?.nbytes ?? 0) ? one : most), null);
    return largest === null ? this.stepAt(instruction) : largest.step + 1;
  }

  /**
   * The number of the step at which most bytes are live; 0 where nothing is known, and where that
   * is before the first step.
   * @returns {number}
   */
  get peakStep() {
    const memory = this.data.memory;
    return memory && memory.peak_step !== null ? memory.peak_step + 1 : 0;
  }
}

const GRADIENT_NAME = /(?:d\([^()]*\)|d[^\s/,;:()]+)\/d[^\s,;:()]*[^\s,;:().]/g;

/** Writes gradients in sentences as everywhere else: `∂J/∂W` for `dJ/dW`. */
function withLabels({ values, steps, memory }) {
  const labels = new Map();
  for (const { name, label, of } of values) if (of !== null && label) labels.set(name, label);
  if (!labels.size) return;
  const spelled = (text) => text.replace(GRADIENT_NAME, (name) => labels.get(name) ?? name);
  for (const value of values) {
    value.zeros = value.zeros.map(spelled);
    for (const key of ["dead", "why", "kept_because", "view_of"]) value[key] = spelled(value[key]);
  }
  for (const step of steps) step.title = spelled(step.title);
  for (const life of memory?.lives ?? []) {
    life.label = spelled(life.label);
    life.parts = spelled(life.parts);
  }
}

function largestBytes(values) {
  return values.reduce((most, { nbytes }) => {
    return typeof nbytes === "number" ? Math.max(most, nbytes) : most;
  }, 0);
}
