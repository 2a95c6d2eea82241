// On paper: the facts, and the graph as it is unfolded, whole and without states.

import { spokenBudget } from "./budgets.js";
import { element, vector } from "./dom.js";
import { drawnPasses } from "./graph_passes.js";
import { arrowHeads, arrowShape, boxShape, frameShape, markAgain } from "./graph_shapes.js";
import { factList } from "./header.js";

const MOST_PRINTED = 3000;
const MARGIN_MIDDLE = 24;

/**
 * @param {import("./chips.js").Page} page
 * @param {import("./graph.js").GraphView} graph
 * @returns {HTMLElement}
 */
export function createPrint(page, graph) {
  const view = element("section", { class: "print", "aria-hidden": "true" });
  addEventListener("beforeprint", () => view.replaceChildren(...printed(page, graph)));
  addEventListener("afterprint", () => view.replaceChildren());
  return view;
}

function printed({ budgets, data, store }, graph) {
  const { budget } = store.state;
  const { layout } = graph;
  const found = [
    element("h1", {}, data.title),
    element("p", {}, data.subtitle),
    factList(data.facts),
    ...data.notes.map((note) => element("p", {}, note)),
  ];
  if (budget) found.push(element("p", {}, `Within a budget: ${spokenBudget(budgets, budget)} (↻)`));
  if (layout.boxes.size > MOST_PRINTED) {
    found.push(element("p", {}, "The graph is too large for paper: fold some of it."));
    return found;
  }
  const ends = graph.scene.ends;
  const { states } = graph.scene;
  const again = states.again();
  const boxes = [...layout.boxes].map(([key, box]) => {
    const shape = boxShape(key, box, ends.get(key) ?? [], states.stepOf(box));
    if (again.has(key)) shape.setAttribute("data-state", "again");
    markAgain(shape, box, again.get(key) ?? 0);
    return shape;
  });
  found.push(
    vector(
      "svg",
      { class: "graph", viewBox: `0 0 ${layout.width} ${layout.height}` },
      arrowHeads("print"),
      ...layout.frames.map((frame) => frameShape(frame)),
      ...layout.arrows.map((arrow) => arrowShape(arrow, "print")),
      ...boxes,
      ...passNames(data.drawing, layout),
    ),
  );
  return found;
}

/** Upward along the left margin, where no box stands. */
function passNames(drawing, layout) {
  return drawnPasses(drawing).map(({ name }, place) => {
    const [top, bottom] = layout.spans[place];
    const transform = `translate(${MARGIN_MIDDLE} ${(top + bottom) / 2}) rotate(-90)`;
    return vector("text", { class: "pass", transform }, name);
  });
}
