// The graph from far away, or with thousands of boxes in sight: one path for all boxes that look alike.

import { vector } from "./dom.js";
import { rounded } from "./graph_text.js";

const COLLAPSE_BELOW = 26;

/**
 * Boxes as rectangles, and arrows, as few paths. Frames that are small on the screen hide what is
 * inside them.
 * @param {[string, any][]} boxes keys and boxes in sight
 * @param {any[]} arrows in sight
 * @param {function(any, string): string} stateOf a box with its key
 * @param {function(any): string} fillOf a box: its colour by a quantity, or ""
 * @returns {SVGElement[]}
 */
export function farShapes(boxes, arrows, stateOf, fillOf) {
  const rectangles = new Map();
  for (const [own, box] of boxes) {
    const key = [box.item.role, stateOf(box, own), fillOf(box)].join();
    const found = rectangles.get(key) ?? [];
    if (!found.length) rectangles.set(key, found);
    const [x, y, width, height] = [box.x, box.y, box.width, box.height].map(rounded);
    found.push(`M${x} ${y}h${width}v${height}h${-width}z`);
  }
  const lines = new Map();
  for (const { line, points } of arrows) {
    const found = lines.get(line) ?? [];
    if (!found.length) lines.set(line, found);
    found.push(`M${points.map(([x, y]) => `${Math.round(x)} ${Math.round(y)}`).join("L")}`);
  }
  return [
    ...[...lines].map(([line, parts]) =>
      vector("path", { class: `line thin ${line}-line`, d: parts.join("") }),
    ),
    ...[...rectangles].map(([key, parts]) => {
      const [role, state, fill] = key.split(",");
      const path = vector("path", { class: "box thin", d: parts.join("") });
      const group = vector("g", { class: `node ${role}`, "data-state": state }, path);
      group.classList.toggle("painted", fill !== "");
      group.style.setProperty("--painted", fill);
      return group;
    }),
  ];
}

/**
 * The frames that are too small on the screen to be looked into, by the key of their group.
 * @param {any[]} frames
 * @param {number} scale
 * @returns {any[]}
 */
export function collapsedFrames(frames, scale) {
  const small = frames.filter(({ height }) => height * scale < COLLAPSE_BELOW);
  small.sort((one, other) => other.width * other.height - one.width * one.height);
  const found = [];
  for (const frame of small) if (!found.some((one) => holds(one, frame))) found.push(frame);
  return found;
}

/**
 * Whether a rectangle has the middle of another one inside.
 * @param {{x: number, y: number, width: number, height: number}} frame
 * @param {{x: number, y: number, width: number, height: number}} box
 * @returns {boolean}
 */
export function holds(frame, box) {
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  return x >= frame.x && x <= frame.x + frame.width && y >= frame.y && y <= frame.y + frame.height;
}
