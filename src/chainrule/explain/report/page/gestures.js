// Drag, wheel and pinch on the graph, as changes of its view.

import { zoomedAt } from "./camera.js";

const SLACK = 4;
const WHEEL_SPEED = 0.0016;
const LINE_PIXELS = 16;

/**
 * `view()` gives the view, `move(view)` sets it. A drag that begins on a text is left to the
 * browser, which selects the text. `moved()` tells whether the last press became a drag.
 * @param {HTMLElement} area
 * @param {{view: function(): any, move: function(any): void}} camera
 * @returns {{moved: function(): boolean}}
 */
export function listenToGestures(area, camera) {
  const pointers = new Map();
  let start = null;
  let dragged = false;

  const place = (event) => {
    const box = area.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const begin = () => {
    start = { view: camera.view(), points: [...pointers.values()] };
  };

  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest("button, a, canvas")) return;
    dragged = false;
    const onText = event.target instanceof SVGElement && event.target.closest("text");
    if (onText && event.pointerType === "mouse") return;
    pointers.set(event.pointerId, place(event));
    begin();
  });
  area.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    pointers.set(event.pointerId, place(event));
    const points = [...pointers.values()];
    const [one, other] = points;
    if (!dragged && distance(one, start.points[0]) < SLACK && points.length < 2) return;
    if (!dragged) area.setPointerCapture(event.pointerId);
    dragged = true;
    area.classList.add("dragging");
    if (other) camera.move(pinched(start, one, other));
    else camera.move(shifted(start, one));
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    area.addEventListener(end, (event) => {
      if (!pointers.delete(event.pointerId)) return;
      area.classList.remove("dragging");
      begin();
    });
  }
  area.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const pixels = event.deltaY * (event.deltaMode === 1 ? LINE_PIXELS : 1);
      if (event.shiftKey) {
        const view = camera.view();
        camera.move({ ...view, x: view.x - pixels - event.deltaX });
        return;
      }
      const speed = event.ctrlKey ? WHEEL_SPEED * 6 : WHEEL_SPEED;
      camera.move(zoomedAt(camera.view(), Math.exp(-pixels * speed), x, y));
    },
    { passive: false },
  );
  return { moved: () => dragged };
}

function distance(one, other) {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

function shifted({ view, points: [from] }, to) {
  return { ...view, x: view.x + to.x - from.x, y: view.y + to.y - from.y };
}

function pinched({ view, points: [first, second] }, one, other) {
  const factor = distance(one, other) / Math.max(distance(first, second), 1);
  const before = { x: (first.x + second.x) / 2, y: (first.y + second.y) / 2 };
  const now = { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
  const zoomed = zoomedAt(view, factor, before.x, before.y);
  return { ...zoomed, x: zoomed.x + now.x - before.x, y: zoomed.y + now.y - before.y };
}
