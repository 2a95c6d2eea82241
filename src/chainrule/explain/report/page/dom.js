// Elements made without markup: whatever a text contains, it stays text.

const VECTOR_SPACE = "http://www.w3.org/2000/svg";

/**
 * An HTML element. Attributes that are functions become listeners; null and false are left out.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|number|null|false|undefined)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  return filledIn(document.createElement(tag), attributes, children);
}

/**
 * An SVG element, made as `element` makes those of HTML.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|number|null|false|undefined)} children
 * @returns {SVGElement}
 */
export function vector(tag, attributes = {}, ...children) {
  return filledIn(document.createElementNS(VECTOR_SPACE, tag), attributes, children);
}

/**
 * Sets attributes; null and false take them away.
 * @param {Element} node
 * @param {Object<string, any>} attributes
 */
export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

function filledIn(node, attributes, children) {
  setAttributes(node, attributes);
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/**
 * A box in which something too wide, as a table of numbers, can be scrolled, also by keys.
 * @param {HTMLElement} content
 * @returns {HTMLElement}
 */
export function scrolled(content) {
  const box = element("div", { class: "scrolled" }, content);
  new ResizeObserver(() => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }).observe(content);
  return box;
}

/**
 * A function that calls `work` once in the next frame, however often it is itself called.
 * @param {function(): void} work
 * @returns {function(): void}
 */
export function oncePerFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

/**
 * As `oncePerFrame`, but while calls come fast the work is done when they pause, at the latest a
 * little later: for work that takes longer than a frame.
 * @param {function(): void} work
 * @param {number} pause in milliseconds
 * @returns {function(): void}
 */
export function whenCalm(work, pause) {
  let last = -Infinity;
  let timer = 0;
  const run = () => {
    timer = 0;
    work();
    last = performance.now();
  };
  return () => {
    if (!timer)
      timer = setTimeout(
        () => requestAnimationFrame(run),
        performance.now() - last < pause ? pause : 0,
      );
  };
}

/**
 * Whether keys typed now are text for the element that has the focus.
 * @param {EventTarget|null} target
 * @returns {boolean}
 */
export function takesText(target) {
  return target instanceof Element && target.matches("input:not([type=range]), select, textarea");
}
