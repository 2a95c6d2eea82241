// A small map of the whole graph, with the part in sight marked; click and drag go there.  It stands
// in the corner in which it covers least.

import { centredOn, onScreen } from "./camera.js";
import { element, oncePerFrame } from "./dom.js";

const MAP_WIDTH = 190;
const MAP_HEIGHT = 92;
const LEAST_HEIGHT = 26;
const MARGIN = 10;
const SETTLE_MILLISECONDS = 200; // after the view has moved
const CORNERS = ["right low", "left low", "right high", "left high"];

/**
 * @param {import("./graph.js").GraphView} graph
 * @returns {{view: HTMLElement, draw: function(): void, mark: function(any, any): void}}
 */
export function createOverview(graph) {
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { "aria-hidden": "true" }));
  const window_ = element("div", { class: "window" });
  const view = element("div", { class: "overview", "aria-hidden": "true" }, canvas, window_);
  let scale = { x: 1, y: 1 };
  let corner = CORNERS[0];
  let timer = 0;

  const settle = () => {
    const size = { width: view.offsetWidth, height: view.offsetHeight };
    const [best] = CORNERS.map((name) => [coveredIn(graph, name, size), name])
      .sort(([one, first], [other, second]) => one - other || (second === corner) - (first === corner));
    corner = best[1];
    view.dataset.corner = corner;
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

/** How much of boxes is below the map where it stands in a corner. */
function coveredIn({ layout, page, screen }, corner, { width, height }) {
  const { view } = page.store.state;
  const left = corner.startsWith("left") ? MARGIN : screen.width - MARGIN - width;
  const top = corner.endsWith("high") ? MARGIN : screen.height - MARGIN - height;
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
