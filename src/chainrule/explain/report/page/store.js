// The one state of the page, and who wants to know when it changes.

/**
 * `cursor` 0 stands before the first step: nothing is faded yet. `selected` is the id of a value
 * (number), the key of a scope or of a box without a name (string), or null.
 * @typedef {Object} State
 * @property {number} cursor
 * @property {number|string|null} selected
 * @property {boolean} asked whether a person chose it: in a small window the inspector is open then
 * @property {any} [part] of the memory: what has no name and was chosen, inside of what is selected
 * @property {Set<string>} open keys of the scopes that are unfolded
 * @property {{x: number, y: number, scale: number}} view
 * @property {string} tab
 * @property {{words: string, by: string}} [listed] what the table of values was last asked for
 * @property {number} budget place of the plan that is shown; 0 for that of the page
 * @property {"auto"|"light"|"dark"} theme
 * @property {boolean} dark what the theme comes to
 * @property {string} colour what the colours of the boxes say
 */

/**
 * @param {State} initial
 * @returns {Store}
 */
export function createStore(initial) {
  return new Store(initial);
}

/** Holds the state; listeners are called after each change of one of the keys they asked for. */
export class Store {
  /** @param {State} initial */
  constructor(initial) {
    this.state = Object.freeze({ ...initial });
    this.listeners = [];
  }

  /**
   * @param {(keyof State)[]} keys
   * @param {function(State, State): void} listener takes the state now and the one before
   */
  subscribe(keys, listener) {
    this.listeners.push({ keys, listener });
  }

  /** @param {Partial<State>} changes */
  set(changes) {
    const before = this.state;
    const keys = Object.keys(changes).filter((key) => changes[key] !== before[key]);
    if (!keys.length) return;
    this.state = Object.freeze({ ...before, ...changes });
    for (const one of this.listeners) {
      if (one.keys.some((key) => keys.includes(key))) one.listener(this.state, before);
    }
  }
}
