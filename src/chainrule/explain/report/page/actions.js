// What a person can do, whichever view it is done in: select, step, fold and unfold, find again.

/**
 * @typedef {Object} Actions
 * @property {function(number|string|null, boolean=): void} select marks it, wherever it is
 * @property {function(number|string, boolean=, any=): void} reveal unfolds what hides it, marks it, goes
 *   there; without `asked` nothing is opened about it in a small window; `part` is of
 *   the memory, what lies inside of the value and was asked for
 * @property {function(number): void} goTo moves the cursor to a step and marks its value
 * @property {function(number): void} stepBy
 * @property {function(string): void} toggle folds or unfolds a scope
 * @property {function(): void} crossOver from a value to its gradient and back
 */

/**
 * `graph.hold` keeps a folded or unfolded scope where it is on the screen; `graph.show` moves the
 * view so that a box can be seen.
 * @param {import("./model.js").Model} model
 * @param {import("./store.js").Store} store
 * @param {import("./scopes.js").Scopes} scopes
 * @returns {Actions & {graph: any}}
 */
export function createActions(model, store, scopes) {
  const actions = {
    graph: null,

    select(selected, asked = selected !== null) {
      store.set({ selected, asked, part: null });
    },

    reveal(selected, asked = true, part = null) {
      const open = new Set(store.state.open);
      const key = scopes.keyOf(selected);
      for (const scope of key === null ? [] : scopes.around(key)) open.add(scope);
      const wasHidden = open.size > store.state.open.size;
      store.set(wasHidden ? { open, selected, asked, part } : { selected, asked, part });
      if (key !== null) actions.graph?.show(key, wasHidden);
    },

    goTo(number) {
      const cursor = Math.min(Math.max(number, 0), model.steps.length);
      const key = model.step(cursor)?.circle ?? null;
      const selected = model.valueOfStep(cursor) ?? key;
      store.set(selected === null ? { cursor } : { cursor, selected, part: null });
      if (key !== null) actions.graph?.show(key);
    },

    stepBy(count) {
      actions.goTo(store.state.cursor + count);
    },

    toggle(key) {
      const scope = scopes.bare(key);
      const open = new Set(store.state.open);
      if (open.has(scope)) open.delete(scope);
      else open.add(scope);
      const release = actions.graph?.hold(key);
      store.set({ open });
      release?.();
    },

    crossOver() {
      const { selected } = store.state;
      if (typeof selected !== "number") return;
      const { gradient, of } = model.values[selected];
      const other = gradient ?? of;
      if (other !== null && other !== undefined) actions.reveal(other, store.state.asked);
    },
  };
  return actions;
}
