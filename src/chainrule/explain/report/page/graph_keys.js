// Arrow keys in the graph: to the next box in that direction.

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const ACROSS_COUNTS = 2.2;

/**
 * The key of the nearest box in a direction, of one that is not a small copy; null if none is.
 * @param {Map<string, any>} boxes
 * @param {string|null} from key
 * @param {any} start the place of what has this key, a box or a frame; null if nothing has
 * @param {string} arrow name of the key pressed
 * @returns {string|null}
 */
export function neighbour(boxes, from, start, arrow) {
  const direction = DIRECTIONS[arrow];
  if (!direction) return null;
  if (!start) return boxes.keys().next().value ?? null;
  const [x, y] = boxMiddle(start);
  let best = null;
  let least = Infinity;
  for (const [key, box] of boxes) {
    if (key === from || box.item.form === "copy") continue;
    const [dx, dy] = [boxMiddle(box)[0] - x, boxMiddle(box)[1] - y];
    const ahead = dx * direction[0] + dy * direction[1];
    const aside = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
    if (ahead < 4 || aside > ahead * 2.5) continue;
    const cost = ahead + ACROSS_COUNTS * aside;
    if (cost < least) [best, least] = [key, cost];
  }
  return best;
}

/**
 * @param {string} key
 * @returns {boolean}
 */
export function isArrow(key) {
  return key in DIRECTIONS;
}

function boxMiddle({ x, y, width, height }) {
  return [x + width / 2, y + height / 2];
}
