// The graph: what is unfolded, laid out; only what is in sight is drawn; pan, zoom, select, fold.

import { fitted, firstView, fly, onScreen, viewShowing, zoomedAt } from "./camera.js";
import { element, oncePerFrame, vector } from "./dom.js";
import { listenToGestures } from "./gestures.js";
import { createGraphBar } from "./graph_bar.js";
import { holds } from "./graph_far.js";
import { isArrow, neighbour } from "./graph_keys.js";
import { createPasses, drawnPasses } from "./graph_passes.js";
import { GraphScene } from "./graph_scene.js";
import { layoutOf } from "./layout.js";
import { createOverview } from "./overview.js";
import { counted } from "./words.js";

const ZOOM_STEP = 1.25;
const SHEET = "(max-width: 899px)"; // where narrow.css makes the inspector a sheet
const AROUND = 12; // the boxes, when all of them are shown

/**
 * @param {import("./chips.js").Page} page
 * @returns {GraphView}
 */
export function createGraph(page) {
  return new GraphView(page);
}

/** The focus is on one box, `held`, which is that of the selection unless arrow keys moved it. */
export class GraphView {
  constructor(page) {
    this.page = page;
    this.held = null;
    this.follows = true; // the view is the first one still, so it follows the size of the window
    this.stop = () => {};
    this.pointer = null;
    this.#build();
    this.#listen();
    this.lay();
  }

  #build() {
    const { data } = this.page;
    const told = `${data.title}: ${counted(data.values.length, "value")}, ${counted(data.steps.length, "step")}`;
    this.svg = vector("svg", { class: "graph", role: "img", "aria-label": told });
    this.svg.append(vector("desc", {}, description(data)));
    this.scene = new GraphScene(this.page, this.svg);
    this.overview = createOverview(this);
    this.passes = createPasses(data.drawing);
    this.area = element(
      "div",
      {
        id: "graph",
        tabindex: 0,
        role: "application",
        "aria-label": `Graph. ${told}. Arrow keys move, Enter unfolds, question mark lists the keys.`,
      },
      this.svg,
    );
    this.view = element(
      "section",
      { class: "graph-place", "aria-label": "Graph" },
      createGraphBar(this),
      this.passes.view,
      this.area,
      this.overview.view,
    );
  }

  #listen() {
    const { store } = this.page;
    const camera = { view: () => store.state.view, move: (view) => this.move(view) };
    this.gestures = listenToGestures(this.area, camera);
    this.area.addEventListener("click", (event) => this.#click(event));
    this.area.addEventListener("dblclick", (event) => this.#doubleClick(event));
    this.area.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(oncePerFrame(() => this.#resize())).observe(this.area);
    const decorate = oncePerFrame(() => this.scene.decorate(this.held));
    store.subscribe(["view"], () => this.#seen());
    store.subscribe(["open"], () => this.lay());
    store.subscribe(["cursor", "budget", "colour", "dark"], decorate);
    store.subscribe(["selected"], () => {
      const key = this.page.scopes.keyOf(store.state.selected);
      const shown = key === null ? null : this.page.scopes.shownAs(store.state.open, key);
      if (!this.scene.isSame(this.held, store.state.selected)) this.held = shown;
      decorate();
    });
  }

  /** The size of the screen, which shows the graph alone. */
  get screen() {
    const { clientWidth, clientHeight } = this.area;
    return { width: clientWidth || 900, height: clientHeight || 500 };
  }

  /** Lays out what is unfolded and draws it. */
  lay() {
    this.layout = layoutOf(this.page.data.drawing, this.page.store.state.open);
    this.world = worldOf(this.layout);
    this.scene.take(this.layout);
    this.overview.draw();
    this.#seen();
    this.scene.decorate(this.held);
  }

  /** Shows all of it, or its beginning. */
  begin() {
    this.follows = true;
    const [[, seam] = [0, 0]] = this.layout.spans;
    this.page.store.set({ view: firstView(this.world, this.screen, seam) });
  }

  fit() {
    this.#fly(fitted(this.world, this.screen));
  }

  zoom(times) {
    const { width, height } = this.screen;
    const factor = ZOOM_STEP ** times;
    this.#fly(zoomedAt(this.page.store.state.view, factor, width / 2, height / 2));
  }

  /** Moves the view at once. */
  move(view) {
    this.stop();
    this.follows = false;
    this.page.store.set({ view });
  }

  /** Moves the view so that a box can be seen; `closer` also so that it can be read. */
  show(key, closer = false) {
    const box = this.boxOf(key);
    if (!box) return;
    const { view } = this.page.store.state;
    const next = viewShowing(view, box, this.screen, closer);
    if (next !== view) this.#fly(next);
  }

  /** The rectangle of a box, or of the frame of a scope, or of the folded one around it. */
  boxOf(key) {
    const { scopes, store } = this.page;
    const shown = scopes.shownAs(store.state.open, key);
    const bare = scopes.bare(shown);
    const frame = (one) => one.key === bare && one.mirrored === (bare !== shown);
    return this.layout.boxes.get(shown) ?? this.layout.frames.find(frame) ?? null;
  }

  /** Remembers where a scope is on the screen; what is returned puts it back there. */
  hold(key) {
    const before = this.boxOf(key);
    const { view } = this.page.store.state;
    if (!before) return () => {};
    const pointer = this.pointer;
    return () => {
      const after = this.boxOf(key);
      if (!after) return;
      const anchor = { x: before.x * view.scale + view.x, y: before.y * view.scale + view.y };
      const into = { x: 0, y: 0 };
      if (after.width < before.width || after.height < before.height) {
        const { width, height } = this.screen;
        anchor.x = pointer?.x ?? Math.min(Math.max(anchor.x, 20), width - 100);
        anchor.y = pointer?.y ?? Math.min(Math.max(anchor.y, 20), height - 80);
        if (pointer) [into.x, into.y] = [after.width / 2, after.height / 2];
      } else {
        anchor.x = Math.max(anchor.x, 6);
        anchor.y = Math.max(anchor.y, 6);
      }
      const { scale } = view;
      this.move({
        x: anchor.x - (after.x + into.x) * scale,
        y: anchor.y - (after.y + into.y) * scale,
        scale,
      });
    };
  }

  #fly(to) {
    this.stop();
    this.follows = false;
    this.stop = fly(this.page.store.state.view, to, (view) => this.page.store.set({ view }));
  }

  #seen() {
    const { view } = this.page.store.state;
    this.scene.look(view, this.screen);
    this.overview.mark(view, this.screen);
    this.passes.place(view, this.layout, this.screen.height);
  }

  #resize() {
    if (!this.area.clientWidth) return;
    const wasSeen = this.#isSeen(this.held, this.lastScreen);
    this.lastScreen = this.screen;
    if (this.follows) this.begin();
    else this.#seen();
    if (wasSeen) this.show(this.held);
    this.overview.draw();
    this.overview.mark(this.page.store.state.view, this.screen);
  }

  /** Whether the middle of a box is on a screen of some size. */
  #isSeen(key, screen) {
    const box = key === null || !screen ? null : this.boxOf(key);
    if (!box) return false;
    const { x, y, width, height } = onScreen(this.page.store.state.view, box);
    const middle = { x: x + width / 2, y: y + height / 2, width: 0, height: 0 };
    return holds({ x: 0, y: 0, width: screen.width, height: screen.height }, middle);
  }

  #place(event) {
    const box = this.area.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #keyAt(event) {
    const found = event.target.closest?.("[data-key]")?.dataset.key;
    return found ?? this.scene.keyAt(this.#place(event), this.page.store.state.view);
  }

  #click(event) {
    if (this.gestures.moved() || !getSelection().isCollapsed) return;
    this.select(this.#keyAt(event));
  }

  #doubleClick(event) {
    const key = this.#keyAt(event);
    if (key === null || !this.page.scopes.branches.has(this.page.scopes.bare(key))) return;
    getSelection().removeAllRanges();
    this.pointer = this.#place(event);
    this.page.actions.toggle(key);
    this.pointer = null;
  }

  /** Marks what a box stands for; the box itself keeps the focus. */
  select(key, asked = key !== null) {
    this.held = key;
    const id = key === null ? null : this.scene.valueAt(key);
    this.page.actions.select(id ?? key, asked);
    this.scene.decorate(this.held);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isArrow(event.key)) {
      const { held } = this;
      const start = held === null ? null : this.boxOf(held);
      const key = neighbour(this.layout.boxes, held, start, event.key);
      if (key !== null) {
        this.select(key, this.page.store.state.asked);
        this.show(key);
      }
    } else if (event.key === "Enter" && this.held !== null) {
      const scope = this.page.scopes.bare(this.held);
      if (this.page.scopes.branches.has(scope)) this.page.actions.toggle(this.held);
      else this.#fold(this.held);
    } else return;
    event.preventDefault();
  }

  /** Enter on a box that is no scope: opens the sheet about it, or folds the scope that it is in. */
  #fold(key) {
    const { asked } = this.page.store.state;
    if (!asked && matchMedia(SHEET).matches) {
      this.select(key);
      return;
    }
    const around = this.page.scopes.around(key);
    if (!around.length) return;
    const scope = around.at(-1);
    this.page.actions.toggle(scope);
    this.select(scope);
  }
}

/** The rectangle that all boxes and frames are in, and a little more; of nothing that of the layout. */
function worldOf({ boxes, frames, width, height }) {
  if (!boxes.size) return { x: 0, y: 0, width, height };
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const box of [...boxes.values(), ...frames]) {
    left = Math.min(left, box.x);
    right = Math.max(right, box.x + box.width);
    top = Math.min(top, box.y);
    bottom = Math.max(bottom, box.y + box.height);
  }
  const [x, y] = [left - AROUND, top - AROUND];
  return { x, y, width: right + AROUND - x, height: bottom + AROUND - y };
}

function description(data) {
  const names = drawnPasses(data.drawing).map((one) => one.name);
  return `Squares are variables, circles are operators. From top to bottom: ${names.join(", ")}.`;
}
