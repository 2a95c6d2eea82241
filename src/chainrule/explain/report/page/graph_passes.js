// The names of the passes, in a strip at the left edge of the graph, where no box comes.

import { element } from "./dom.js";

const NAME_NEEDS = 26; // pixels of a pass in sight
const STRIPE_EDGE = 32; // above and below the boxes of a pass, where there is room

/**
 * The passes that have boxes, from top to bottom, as `spans` of a layout has them.
 * @param {any} drawing
 * @returns {{pass: string, name: string, note: string}[]}
 */
export function drawnPasses({ bands, backward }) {
  const drawn = bands.flatMap((band, place) => {
    if (!band.count) return [];
    return backward?.band === place ? [band, { ...backward, pass: "backward" }] : [band];
  });
  return drawn.map(({ pass, note }) => ({ pass, name: passName(note), note }));
}

/** Of `← backward (gradients of J)` the word. */
function passName(note) {
  return note.split("(")[0].replace(/[←→]/g, "").trim();
}

/**
 * Where the stripe of each pass begins and ends: those of two passes meet in the middle between them.
 * @param {[number, number][]} spans of the boxes of each
 * @returns {[number, number][]}
 */
export function stripesOf(spans) {
  return spans.map(([top, bottom], place) => {
    const above = place ? (top - spans[place - 1][1]) / 2 : STRIPE_EDGE;
    const below = place + 1 < spans.length ? (spans[place + 1][0] - bottom) / 2 : STRIPE_EDGE;
    return [top - Math.min(above, STRIPE_EDGE), bottom + Math.min(below, STRIPE_EDGE)];
  });
}

/**
 * `place` puts each name beside what is in sight of its pass.
 * @param {any} drawing
 * @returns {{view: HTMLElement, place: function(any, any, number): void}}
 */
export function createPasses(drawing) {
  const names = drawnPasses(drawing).map(({ pass, name, note }) =>
    element("p", { class: pass, title: note }, name),
  );
  const view = element("div", { class: "passes" }, ...names);
  const place = (camera, { spans }, height) => {
    const stripes = stripesOf(spans);
    names.forEach((name, number) => {
      const [top, bottom] = stripes[number].map((y) => y * camera.scale + camera.y);
      const from = Math.round(Math.max(top, 0));
      const to = Math.round(Math.min(bottom, height));
      name.hidden = to - from < NAME_NEEDS;
      name.style.top = `${from}px`;
      name.style.height = `${Math.max(to - from, 0)}px`;
    });
  };
  return { view, place };
}
