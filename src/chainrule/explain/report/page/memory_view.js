// The tab Memory: the stack of live bytes, and what is alive at the cursor, largest first.

import { oneText, stepTitle } from "./chips.js";
import { element, oncePerFrame, vector } from "./dom.js";
import { drawMemory, keepPeakClear } from "./memory_chart.js";
import { aliveRow } from "./memory_rows.js";
import { aliveAt, restLabel } from "./memory_stack.js";
import { bytesText, countText } from "./words.js";

const ROWS_SHOWN = 40;
const MOST_ZOOM = 64;
const CHART_ZOOM = 1.5;
const COLUMNS =
  "From left to right: what is there before the first step, then the instructions of the executor. Several steps may be one instruction, and one step several.";

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createMemory(page) {
  const { data, store } = page;
  if (!data.memory) {
    const told =
      "The sizes of this graph are named, so its bytes are formulas. Give sizes to see when they are live.";
    return element("div", { class: "empty" }, told);
  }
  const svg = vector("svg", { class: "memory", role: "img", "aria-label": summary(page) });
  const cursor = vector("line", { class: "cursor-line" });
  const named = { role: "group", "aria-label": "Memory over time" };
  const scroller = element("div", { class: "chart-scroller", ...named }, svg);
  const zoomBy = (factor, aside = scroller.clientWidth / 2) => {
    const before = zoom;
    zoom = Math.min(Math.max(zoom * factor, 1), MOST_ZOOM);
    anchor = ((scroller.scrollLeft + aside) * zoom) / before - aside;
    draw();
  };
  const button = (text, label, factor) => {
    const attributes = { type: "button", class: "quiet", "aria-label": label, title: label };
    return element("button", { ...attributes, click: () => zoomBy(factor) }, text);
  };
  const zooms = element(
    "div",
    { class: "zooms" },
    button("−", "Show more time of the memory chart", 1 / CHART_ZOOM),
    button("+", "Show less time of the memory chart, larger", CHART_ZOOM),
  );
  const caption = element("p", { class: "chart-caption" });
  const chart = element("div", { class: "chart" }, scroller, caption, zooms);
  const alive = element("div", { class: "alive" });
  let scale = null;
  let size = { width: 0, height: 0 };
  let zoom = 1;
  let anchor = 0; // how far the chart is scrolled after it was zoomed

  const draw = oncePerFrame(() => {
    size = { width: Math.round(chart.clientWidth * zoom), height: scroller.clientHeight };
    if (!size.width || !size.height) return;
    svg.style.width = `${size.width}px`;
    scroller.tabIndex = zoom > 1 ? 0 : -1; // what scrolls is reached by keys
    scroller.scrollLeft = anchor;
    scale = drawMemory(svg, page, size);
    svg.append(cursor);
    moveCursor();
    markBands();
  });
  const moveCursor = () => {
    const step = page.model.step(store.state.cursor);
    const together = oneText(page, store.state.cursor);
    caption.textContent = `columns are instructions${together && ` · ${together}`}`;
    caption.title = COLUMNS;
    cursor.setAttribute("visibility", step && scale ? "visible" : "hidden");
    const x = step && scale ? scale.at(step.fullest_instruction) : null;
    keepPeakClear(svg, x, size.width);
    if (x === null) return;
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 4, y2: size.height - 18 })) {
      cursor.setAttribute(name, value);
    }
  };
  const markBands = () => {
    for (const one of [...svg.querySelectorAll(".band.selected")]) one.classList.remove("selected");
    const { selected } = store.state;
    if (typeof selected !== "number") return;
    for (const one of svg.querySelectorAll(`.band[data-value-id="${selected}"]`)) {
      one.classList.add("selected");
      svg.insertBefore(one, svg.querySelector(".band-label, .pass-name"));
    }
  };
  const explained = {
    kind: null, // the sum of bytes that is explained
    toggle(kind) {
      explained.kind = explained.kind === kind ? null : kind;
      list();
    },
  };
  const list = oncePerFrame(() => alive.replaceChildren(...aliveNow(page, explained)));

  svg.addEventListener("click", (event) => {
    if (!scale) return;
    const place = event.clientX - svg.getBoundingClientRect().left;
    page.actions.goTo(page.model.makerAt(scale.instructionAt(place)));
    const band = event.target.closest?.("[data-value-id]");
    if (band) page.actions.reveal(Number(band.dataset.valueId));
    const rest = event.target.closest?.("[data-rest]");
    if (rest) {
      explained.kind = rest.dataset.rest;
      list();
    }
  });
  svg.addEventListener("pointermove", (event) => {
    const rest = event.target.closest?.("[data-rest]");
    if (!rest || !scale) return; // a sum has other bytes in each column
    const place = event.clientX - svg.getBoundingClientRect().left;
    const nbytes = data.memory.rest[rest.dataset.rest][scale.instructionAt(place)];
    rest.querySelector("title").textContent = `${restLabel(rest.dataset.rest)}: ${bytesText(nbytes)}`;
  });
  svg.addEventListener(
    "wheel",
    (event) => {
      if (event.deltaX || event.shiftKey) return;
      event.preventDefault();
      const aside = event.clientX - scroller.getBoundingClientRect().left;
      zoomBy(event.deltaY < 0 ? CHART_ZOOM : 1 / CHART_ZOOM, aside);
    },
    { passive: false },
  );
  scroller.addEventListener("scroll", () => {
    anchor = scroller.scrollLeft;
  });
  new ResizeObserver(draw).observe(chart);
  store.subscribe(["cursor"], () => {
    moveCursor();
    list();
  });
  store.subscribe(["selected"], () => {
    markBands();
    list();
  });
  store.subscribe(["tab"], draw);
  list();
  return element("div", { class: "memory-view" }, chart, alive);
}

function summary(page) {
  const { memory } = page.data;
  const peak = `the peak is ${bytesText(memory.peak_nbytes)}, ${placeText(page, page.model.peakStep)}`;
  return `Live bytes over the steps; ${peak}`;
}

/** `step 5, h (forward of h)`. */
function placeText(page, number) {
  return number ? `step ${countText(number)}, ${stepTitle(page, number)}` : "before the first step";
}

/**
 * The list beside the chart: when most is alive during the step at the cursor, or at the peak while
 * nothing is stepped through.
 */
function aliveNow(page, explained) {
  const { data, model, store } = page;
  const number = store.state.cursor || model.peakStep;
  const instruction = model.step(number)?.fullest_instruction ?? data.memory.peak_instruction;
  const peak = instruction === data.memory.peak_instruction;
  const rows = aliveAt(data.memory, instruction);
  const most = rows.reduce((greatest, row) => Math.max(greatest, row.nbytes), 1);
  const total = rows.reduce((sum, row) => sum + row.nbytes, 0);
  const together = store.state.cursor ? oneText(page, number) : "";
  const where = `${peak ? "At the peak" : "Alive"}: ${placeText(page, number)}`;
  const go = () => page.actions.goTo(model.peakStep);
  const toPeak = element("button", { type: "button", class: "quiet", click: go }, "go to the peak");
  const list = rows.slice(0, ROWS_SHOWN).map((row) => aliveRow(page, row, most, explained));
  if (rows.length > ROWS_SHOWN) {
    const more = `and ${countText(rows.length - ROWS_SHOWN)} smaller ones`;
    list.push(element("li", { class: "muted" }, more));
  }
  return [
    element(
      "div",
      { class: "alive-head" },
      element("h2", {}, where),
      element("strong", {}, bytesText(total)),
      !(peak && store.state.cursor) && model.peakStep > 0 && toPeak,
      together && element("p", { class: "muted" }, `S${together.slice(1)}.`),
    ),
    element("ol", { class: "alive-list", "aria-label": "Alive, largest first" }, ...list),
  ];
}
