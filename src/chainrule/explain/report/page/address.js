// The state in the address of the page: what is after # leads back to the same view.

import { colourChoices } from "./quantities.js";
import { hasCurves } from "./training_view.js";

const WRITE_MILLISECONDS = 200;

/**
 * What an address says; keys that it does not have, or that mean nothing here, are left out.
 * @param {string} hash
 * @param {import("./chips.js").Page} page without store and actions
 * @returns {Partial<import("./store.js").State>}
 */
export function stateIn(hash, { model, scopes, data, budgets }) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const found = {};
  const cursor = Number(parts.get("step"));
  if (parts.has("step") && cursor >= 0 && cursor <= model.steps.length)
    found.cursor = Math.floor(cursor);
  const id = model.idOf.get(parts.get("value"));
  const box = parts.get("box");
  if (id !== undefined) found.selected = id;
  else if (box !== null && (scopes.branches.has(scopes.bare(box)) || scopes.numberOf.has(box)))
    found.selected = box;
  else if (found.cursor) {
    found.selected = model.valueOfStep(found.cursor) ?? model.step(found.cursor).circle;
  }
  if (parts.has("open") || parts.has("fold")) {
    found.open = new Set(data.drawing.open);
    for (const key of parts.getAll("open")) if (scopes.branches.has(key)) found.open.add(key);
    for (const key of parts.getAll("fold")) found.open.delete(key);
  }
  const view = (parts.get("view") ?? "").split(",").map(Number);
  if (view.length === 3 && view.every(Number.isFinite) && view[2] > 0) {
    found.view = { x: view[0], y: view[1], scale: view[2] };
  }
  const tabs = ["memory", "values"];
  if (budgets) tabs.push("budget");
  if (data.ranks) tabs.push("ranks");
  if (hasCurves(data)) tabs.push("training");
  if (tabs.includes(parts.get("tab"))) found.tab = parts.get("tab");
  const nbytes = Number(parts.get("budget"));
  if (budgets && nbytes > 0) found.budget = budgets.within(nbytes);
  if (["light", "dark"].includes(parts.get("theme"))) found.theme = parts.get("theme");
  const colour = parts.get("colour");
  if (colourChoices(data).some(([key]) => key === colour)) found.colour = colour;
  return found;
}

/**
 * @param {import("./store.js").State} state
 * @param {import("./chips.js").Page} page
 * @param {boolean} moved whether the view is a person's own
 * @returns {string}
 */
export function hashOf(state, { model, data, budgets }, moved) {
  const parts = new URLSearchParams();
  if (state.cursor) parts.set("step", String(state.cursor));
  if (typeof state.selected === "number") parts.set("value", model.values[state.selected].name);
  else if (state.selected !== null) parts.set("box", state.selected);
  for (const key of state.open) if (!data.drawing.open.includes(key)) parts.append("open", key);
  for (const key of data.drawing.open) if (!state.open.has(key)) parts.append("fold", key);
  if (state.tab !== "memory") parts.set("tab", state.tab);
  if (state.budget) parts.set("budget", String(budgets.points[state.budget].needed_nbytes));
  if (state.theme !== "auto") parts.set("theme", state.theme);
  if (state.colour !== "kind") parts.set("colour", state.colour);
  const { x, y, scale } = state.view;
  if (moved)
    parts.set("view", [Math.round(x), Math.round(y), Number(scale.toPrecision(4))].join(","));
  return parts.toString();
}

/**
 * Unfolds what hides the value or scope of an address that says nothing about the view.
 * @param {import("./chips.js").Page} page
 * @param {Partial<import("./store.js").State>} found in the address
 */
export function revealGiven({ actions }, { selected, view, open, cursor }) {
  if (selected === undefined || selected === null || view || open) return;
  actions.reveal(selected, !cursor);
}

/**
 * Keeps the address right, and follows it when a person changes it.
 * @param {import("./chips.js").Page} page
 * @param {import("./graph.js").GraphView} graph
 */
export function keepAddress(page, graph) {
  const { store } = page;
  let timer = 0;
  const write = () => {
    const hash = hashOf(store.state, page, !graph.follows);
    if (`#${hash}` === location.hash || (!hash && !location.hash)) return;
    try {
      history.replaceState(null, "", `#${hash}`);
    } catch {
      // a page inside another one may not have an address of its own
    }
  };
  store.subscribe(
    ["cursor", "selected", "open", "view", "tab", "budget", "theme", "colour"],
    () => {
      clearTimeout(timer);
      timer = setTimeout(write, WRITE_MILLISECONDS);
    },
  );
  addEventListener("hashchange", () => {
    const usual = { cursor: 0, selected: null, open: new Set(page.data.drawing.open) };
    const found = stateIn(location.hash, page);
    const asked = found.selected !== undefined && !found.cursor;
    store.set({ ...usual, asked, tab: "memory", budget: 0, colour: "kind", ...found });
    revealGiven(page, found);
  });
}
