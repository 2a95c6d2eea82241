// Keys that work everywhere on the page, except where text is typed.

import { takesText } from "./dom.js";

/**
 * @param {import("./chips.js").Page} page
 * @param {any} graph
 * @param {HTMLDialogElement} help
 */
export function listenToKeys(page, graph, help) {
  const { actions } = page;
  const commands = {
    ".": () => actions.stepBy(1),
    ",": () => actions.stepBy(-1),
    g: () => actions.crossOver(),
    "+": () => graph.zoom(1),
    "=": () => graph.zoom(1),
    "-": () => graph.zoom(-1),
    f: () => graph.fit(),
    "/": () => document.getElementById("find").focus(),
    "?": () => (help.open ? help.close() : help.showModal()),
    Escape: () => actions.select(null),
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (takesText(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (help.open && event.key !== "?") return;
    const command = commands[event.key];
    if (!command) return;
    command();
    event.preventDefault();
  });
}
