// Boxes, arrows and frames of the graph as SVG, as the static drawing draws them.

import { vector } from "./dom.js";
import { labelShapes, rounded } from "./graph_text.js";
import { mirroredKey } from "./layout_index.js";

const STACK = 4;
const CAPTION_LINE = 13;
const NAME_BELOW = 11; // pixels from a circle to the line on which its name stands
const CLOSE = 14;
const HALO = 5;
const CAPTION_SIZE = 10.5;
const READABLE_PIXELS = 11; // on the screen
const TITLE_SIZE = 13;
const LARGEST_TITLE = 25; // which the room above the boxes of a frame allows

/**
 * A box at its place; `ends` are where arrows begin and end at it.
 * @param {string} key
 * @param {any} box of the layout
 * @param {[number, number][]} ends
 * @param {number} number of its step; 0 where it has none
 * @param {number} [scale] of the view: from afar, titles are larger
 * @returns {SVGElement}
 */
export function boxShape(key, box, ends, number, scale = 1) {
  const look = box.item;
  const group = vector("g", { class: `node ${look.role} ${look.form}`, "data-key": key });
  group.append(vector("title", {}, look.tip ?? ""), ...outlines(box, look.form));
  group.append(...words(box, look, scale), ...numberShapes(box, look, ends, number));
  return group;
}

function outlines(box, form) {
  const { x, y, width, height } = box;
  if (form === "circle") return [outline({ x, y, width, height }, height / 2)];
  if (form !== "folded") return [outline({ x, y, width, height }, 0)];
  const size = { width: width - STACK, height: height - STACK };
  return [outline({ x: x + STACK, y, ...size }, 6), outline({ x, y: y + STACK, ...size }, 6)];
}

function outline({ x, y, width, height }, round) {
  const place = { x: rounded(x), y: rounded(y), width: rounded(width), height: rounded(height) };
  return vector("rect", { class: "box", ...place, rx: round ? rounded(round) : null });
}

/**
 * The magenta line around what is selected.
 * @param {any} box of the layout
 * @returns {SVGElement}
 */
export function haloShape(box) {
  const { form } = box.item;
  const place = {
    x: box.x - HALO,
    y: box.y - HALO,
    width: box.width + 2 * HALO,
    height: box.height + 2 * HALO,
  };
  const shape = outline(place, form === "circle" ? place.height / 2 : form === "folded" ? 9 : 3);
  shape.setAttribute("class", "halo");
  return shape;
}

/**
 * Says at a square, or at a folded scope with how many, that it is computed again.
 * @param {SVGElement} shape of `boxShape`
 * @param {any} box of the layout
 * @param {number} count of what is computed again
 */
export function markAgain(shape, box, count) {
  shape.querySelector(".again-badge")?.remove();
  if (!count || box.item.form === "circle") return;
  const place = { x: rounded(box.x + box.width - 1), y: rounded(box.y - 3) };
  const told = box.scope ? `↻ ${count}` : "↻";
  shape.append(vector("text", { class: "again-badge", ...place }, told));
}

function words(box, look, scale) {
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  if (look.form !== "folded") return [...labelShapes(x, y, look.label), ...nameShapes(box, look)];
  const times = enlarged(box, look.label, scale);
  const raised = look.caption ? (CAPTION_LINE * times) / 2 : 0;
  const middle = { x: x - STACK / 2, y: y + STACK / 2 - raised };
  const { size, width, lines } = look.label;
  const label = { size: size * times, width: width * times, lines };
  const below = { x: rounded(middle.x), y: rounded(middle.y + 19 * times) };
  if (!look.caption) return labelShapes(middle.x, middle.y, label);
  const caption = vector("text", { class: "small", ...below }, look.caption);
  if (times > 1) caption.style.fontSize = `${rounded(CAPTION_SIZE * times)}px`;
  return [...labelShapes(middle.x, middle.y, label), caption];
}

/** The name of the function whose circle says φ, below the circle. */
function nameShapes(box, { caption }) {
  if (!caption) return [];
  const place = { x: rounded(box.x + box.width / 2), y: rounded(box.y + box.height + NAME_BELOW) };
  return [vector("text", { class: "small name", ...place }, caption)];
}

/** How many times larger the words of a folded box are, so that they can be read from afar. */
function enlarged(box, { size, width }, scale) {
  const room = Math.min(
    (box.width - 2 * STACK - 8) / width,
    (box.height - 2 * STACK) / (size + CAPTION_LINE + 6),
  );
  return Math.max(Math.min(READABLE_PIXELS / (size * scale), room), 1);
}

/** The number of the step, at the corner that is farthest from arrows. */
function numberShapes(box, look, ends, number) {
  if (!number || look.form !== "circle") return [];
  const [left, right] = [box.x + 6, box.x + box.width - 6];
  const [top, bottom] = [box.y + 4, box.y + box.height + 4];
  const corners = [
    [left, top, "number"],
    [right, top, "number after"],
    [left, bottom, "number"],
    [right, bottom, "number after"],
  ];
  if (look.caption) corners.splice(2); // it stands where the lower ones are
  if (look.role === "backward") corners.reverse();
  const room = ([x, y]) =>
    ends.reduce((least, end) => Math.min(least, (x - end[0]) ** 2 + (y - end[1]) ** 2), Infinity);
  const free = corners.find((corner) => room(corner) > CLOSE ** 2);
  const best = free ?? corners.reduce((one, other) => (room(other) > room(one) ? other : one));
  return [vector("text", { class: best[2], x: rounded(best[0]), y: rounded(best[1]) }, number)];
}

/**
 * @param {any} arrow of the layout
 * @param {string} [picture] whose heads it uses
 * @returns {SVGElement}
 */
export function arrowShape(arrow, picture = "graph") {
  return vector("path", {
    class: `line ${arrow.line}-line`,
    d: pathText(arrow.points),
    "marker-end": `url(#${picture}-${arrow.line})`,
  });
}

/**
 * @param {[number, number][]} points
 * @returns {string}
 */
export function pathText(points) {
  return `M${points.map(([x, y]) => `${rounded(x)} ${rounded(y)}`).join("L")}`;
}

/**
 * The frame of a scope that is unfolded.
 * @param {any} frame of the layout
 * @param {number} [scale] of the view
 * @returns {SVGElement}
 */
export function frameShape(frame, scale = 1) {
  const { x, y, width, height, key, title } = frame;
  const place = { x: rounded(x), y: rounded(y), width: rounded(width), height: rounded(height) };
  return vector(
    "g",
    {
      class: "frame-group",
      "data-key": frame.mirrored ? mirroredKey(key) : key,
      "data-frame": key,
    },
    vector("rect", { class: "frame", ...place, rx: 8 }),
    titleShape(frame, scale),
  );
}

function titleShape({ x, y, width, title }, scale) {
  const room = (width - 20) / (title.length * 0.55);
  const size = Math.max(Math.min(READABLE_PIXELS / scale, LARGEST_TITLE, room), TITLE_SIZE);
  const text = vector(
    "text",
    { class: "title", x: rounded(x + 9), y: rounded(y + 3 + size) },
    title,
  );
  if (size > TITLE_SIZE) text.style.fontSize = `${rounded(size)}px`;
  return text;
}

/**
 * The heads of arrows, one for each kind of line; their ids begin with the name of the picture.
 * @param {string} [picture]
 * @returns {SVGElement}
 */
export function arrowHeads(picture = "graph") {
  const heads = ["forward", "backward", "saved", "update"].map((line) =>
    vector(
      "marker",
      {
        id: `${picture}-${line}`,
        viewBox: "0 0 10 8",
        refX: 9.5,
        refY: 4,
        markerWidth: 11,
        markerHeight: 9,
        markerUnits: "userSpaceOnUse",
        orient: "auto",
      },
      vector("path", { class: `${line}-head`, d: "M0 0L10 4L0 8Z" }),
    ),
  );
  return vector("defs", {}, ...heads);
}
