// Where the view of the graph is: screen = world × scale + (x, y).

const LEAST_SCALE = 0.0004;
const GREATEST_SCALE = 6;
const LARGEST_FIT = 1.25;
const READABLE = 0.55;
const COMFORTABLE = 0.72;
const LEAST_FIRST = 0.45; // below that, the first view is of the beginning only
const SEAM = 0.6; // of the height of the screen: where the forward pass ends in it
const FLIGHT_MILLISECONDS = 220;

/** @typedef {{x: number, y: number, scale: number}} View */
/** @typedef {{x: number, y: number, width: number, height: number}} Rectangle */
/** @typedef {{width: number, height: number}} Screen */

/**
 * The view after zooming by a factor; the point (x, y) of the screen stays where it is.
 * @param {View} view
 * @param {number} factor
 * @param {number} x
 * @param {number} y
 * @returns {View}
 */
export function zoomedAt(view, factor, x, y) {
  const scale = Math.min(Math.max(view.scale * factor, LEAST_SCALE), GREATEST_SCALE);
  const times = scale / view.scale;
  return { x: x - (x - view.x) * times, y: y - (y - view.y) * times, scale };
}

/**
 * The view in which all of a rectangle is on the screen.
 * @param {Rectangle} world
 * @param {Screen} screen
 * @returns {View}
 */
export function fitted(world, screen) {
  const room = Math.min(screen.width / world.width, screen.height / world.height, LARGEST_FIT);
  return centredOn(world, screen, Math.max(room, LEAST_SCALE));
}

/**
 * The first view: all of it where that can be read; otherwise its beginning, where that can be
 * read, with the end of the forward pass in sight.
 * @param {Rectangle} world
 * @param {Screen} screen
 * @param {number} seam where the forward pass ends in the world, from above
 * @returns {View}
 */
export function firstView(world, screen, seam) {
  const all = fitted(world, screen);
  if (all.scale >= LEAST_FIRST) return all;
  const scale = Math.min(Math.max(screen.height / world.height, READABLE), 1);
  const middle = centredOn(world, screen, scale);
  const [top, bottom] = [-world.y * scale, screen.height - (world.y + world.height) * scale];
  const atSeam = Math.min(Math.max(screen.height * SEAM - seam * scale, bottom), top);
  return { x: -world.x * scale, y: bottom >= top ? middle.y : atSeam, scale };
}

/**
 * The view with the middle of a rectangle in the middle of the screen.
 * @param {Rectangle} world
 * @param {Screen} screen
 * @param {number} scale
 * @returns {View}
 */
export function centredOn(world, screen, scale) {
  return {
    x: screen.width / 2 - (world.x + world.width / 2) * scale,
    y: screen.height / 2 - (world.y + world.height / 2) * scale,
    scale,
  };
}

/**
 * A rectangle of the world on the screen.
 * @param {View} view
 * @param {Rectangle} world
 * @returns {Rectangle}
 */
export function onScreen(view, { x, y, width, height }) {
  const { scale } = view;
  return {
    x: x * scale + view.x,
    y: y * scale + view.y,
    width: width * scale,
    height: height * scale,
  };
}

/**
 * The view that shows a box: the same one if the box is well inside and can be read.
 * @param {View} view
 * @param {Rectangle} box
 * @param {Screen} screen
 * @param {boolean} closer whether it has to be large enough to read all of it
 * @returns {View}
 */
export function viewShowing(view, box, screen, closer) {
  const seen = onScreen(view, box);
  const edge = Math.min(40, screen.width / 6, screen.height / 6);
  const inside =
    seen.x >= edge &&
    seen.y >= edge &&
    seen.x + seen.width <= screen.width - edge &&
    seen.y + seen.height <= screen.height - edge;
  const isLarge = view.scale >= (closer ? READABLE : READABLE / 2);
  if (inside && isLarge) return view;
  const room = Math.min(screen.width / box.width, screen.height / box.height) * 0.9;
  return centredOn(box, screen, isLarge ? view.scale : Math.min(COMFORTABLE, room));
}

/**
 * Moves from one view to another, at once where motion is unwelcome.
 * @param {View} from
 * @param {View} to
 * @param {function(View): void} set called for each frame
 * @returns {function(): void} stops it
 */
export function fly(from, to, set) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    set(to);
    return () => {};
  }
  const begin = performance.now();
  let frame = requestAnimationFrame(function step(now) {
    const share = Math.min(Math.max((now - begin) / FLIGHT_MILLISECONDS, 0), 1);
    const eased = share * (2 - share);
    const scale = from.scale * (to.scale / from.scale) ** eased;
    const weight = to.scale === from.scale ? eased : (scale - from.scale) / (to.scale - from.scale);
    const mix = (one, other) => one + (other - one) * weight;
    set(share === 1 ? to : { x: mix(from.x, to.x), y: mix(from.y, to.y), scale });
    if (share < 1) frame = requestAnimationFrame(step);
  });
  return () => cancelAnimationFrame(frame);
}
