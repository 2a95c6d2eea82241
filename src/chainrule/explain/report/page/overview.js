// A small map of the whole graph, with the part in sight marked; click and drag go there.  It stands
// at the edge where it covers least; until the view is moved, only where it covers no box.

import { centredOn, onScreen } from "./camera.js";
import { element, oncePerFrame } from "./dom.js";

const MAP_WIDTH = 190;
const MAP_HEIGHT = 92;
const LEAST_HEIGHT = 26;
const MARGIN = 10;
const SETTLE_MILLISECONDS = 200; // after the view has moved
const PLACES = 8; // that are tried along each edge

/**
 * @param {import("./graph.js").GraphView} graph
 * @returns {{view: HTMLElement, draw: function(): void, mark: function(any, any): void}}
 */
export function createOverview(graph) {
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { "aria-hidden": "true" }));
  const window_ = element("div", { class: "window" });
  const view = element("div", { class: "overview", "aria-hidden": "true" }, canvas, window_);
  let scale = { x: 1, y: 1 };
  let place = { left: Infinity, top: Infinity }; // the corner on the right below
  let timer = 0;

  const settle = () => {
    const size = { width: view.offsetWidth, height: view.offsetHeight };
    if (!size.width) return;
    const isHere = ({ left, top }) => left === place.left && top === place.top;
    const tried = placesAround(graph.screen, size).map((one) => [coveredAt(graph, one, size), one]);
    const [best] = tried.sort(
      ([one, first], [other, second]) => one - other || Number(isHere(second)) - Number(isHere(first)),
    );
    place = best[1];
    view.style.left = `${place.left}px`;
    view.style.top = `${place.top}px`;
    view.classList.toggle("covering", graph.follows && best[0] > 0);
  };
  const draw = oncePerFrame(() => {
    const { width, height } = graph.layout;
    const fit = Math.min(MAP_WIDTH / width, MAP_HEIGHT / height);
    const size = { width: Math.max(width * fit, 24), height: Math.max(height * fit, LEAST_HEIGHT) };
    scale = { x: size.width / width, y: size.height / height };
    view.style.width = `${size.width}px`;
    view.style.height = `${size.height}px`;
    paintMap(canvas, graph, size, scale);
    mark(graph.page.store.state.view, graph.screen);
  });

  const mark = (camera, screen) => {
    const seen = onScreen(camera, graph.world);
    const all = seen.x >= -1 && seen.y >= -1 && seen.x + seen.width <= screen.width + 1;
    view.classList.toggle("needless", all && seen.y + seen.height <= screen.height + 1);
    const width = (screen.width / camera.scale) * scale.x;
    const height = (screen.height / camera.scale) * scale.y;
    window_.style.transform = `translate(${(-camera.x / camera.scale) * scale.x}px, ${(-camera.y / camera.scale) * scale.y}px)`;
    window_.style.width = `${width}px`;
    window_.style.height = `${height}px`;
    clearTimeout(timer);
    timer = setTimeout(settle, SETTLE_MILLISECONDS);
  };

  const go = (event) => {
    const box = canvas.getBoundingClientRect();
    const point = {
      x: (event.clientX - box.left) / scale.x,
      y: (event.clientY - box.top) / scale.y,
    };
    const camera = graph.page.store.state.view;
    graph.move(centredOn({ ...point, width: 0, height: 0 }, graph.screen, camera.scale));
  };
  view.addEventListener("pointerdown", (event) => {
    view.setPointerCapture(event.pointerId);
    go(event);
  });
  view.addEventListener("pointermove", (event) => {
    if (event.buttons) go(event);
  });
  graph.page.store.subscribe(["dark"], draw);
  return { view, draw, mark };
}

/** Places along the edges of the screen: first those below, from the right. */
function placesAround(screen, { width, height }) {
  const [right, low] = [screen.width - MARGIN - width, screen.height - MARGIN - height];
  const along = (end) =>
    Array.from({ length: PLACES }, (_, at) => Math.round(end - (at / (PLACES - 1)) * (end - MARGIN)));
  return [
    ...along(right).map((left) => ({ left, top: low })),
    ...along(low).flatMap((top) => [right, MARGIN].map((left) => ({ left, top }))),
    ...along(right).map((left) => ({ left, top: MARGIN })),
  ];
}

/** How much of boxes is below the map where it stands at a place. */
function coveredAt({ layout, page }, { left, top }, { width, height }) {
  const { view } = page.store.state;
  let covered = 0;
  for (const box of layout.boxes.values()) {
    const x = box.x * view.scale + view.x;
    const y = box.y * view.scale + view.y;
    const across = Math.min(x + box.width * view.scale, left + width) - Math.max(x, left);
    const along = Math.min(y + box.height * view.scale, top + height) - Math.max(y, top);
    if (across > 0 && along > 0) covered += across * along;
  }
  return covered;
}

function paintMap(canvas, graph, size, scale) {
  const density = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(size.width * density);
  canvas.height = Math.round(size.height * density);
  canvas.style.width = `${size.width}px`;
  canvas.style.height = `${size.height}px`;
  const context = canvas.getContext("2d");
  const { colours } = graph.page.data.drawing;
  const palette = colours[document.documentElement.dataset.theme === "dark" ? "dark" : "light"];
  context.scale(density, density);
  for (const { x, y, width, height } of graph.layout.frames) {
    context.fillStyle = palette.frame;
    context.fillRect(x * scale.x, y * scale.y, width * scale.x, height * scale.y);
  }
  for (const box of graph.layout.boxes.values()) {
    const { role } = box.item;
    const plain = role === "variable" || role === "copy";
    context.fillStyle = plain ? palette.muted : palette[colours.outlines[role]];
    if (!plain) context.fillStyle = palette.fills[role];
    const [width, height] = [Math.max(box.width * scale.x, 1), Math.max(box.height * scale.y, 1)];
    context.fillRect(box.x * scale.x, box.y * scale.y, width, height);
  }
}
