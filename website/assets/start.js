// Begins what a page needs: pictures that can be zoomed, cells that run, the playground.
(() => {
  "use strict";
  const root = new URL("..", document.currentScript.src); // of this version of the site

  const load = (name) => import(new URL(`assets/${name}`, root).href);

  // Python starts meanwhile.
  async function beginPlayground(place) {
    await mapImports();
    const python = load("python.js").then(({ Python }) => new Python(root));
    const { begin } = await load("playground.js");
    begin(place, root, { python: await python, zoomed });
  }

  async function beginCells() {
    await mapImports();
    (await load("cells.js")).begin(document, root, canBeZoomed);
  }

  // Where modules find the packages that they import by name.  Has to come before them.
  async function mapImports() {
    const answer = await fetch(new URL("assets/vendored/imports.json", root));
    const imports = Object.fromEntries(
      Object.entries(await answer.json()).map(([key, path]) => [key, new URL(path, root).href]),
    );
    const map = document.createElement("script");
    map.type = "importmap";
    map.textContent = JSON.stringify({ imports });
    document.head.append(map);
  }

  // A dialog that shows a picture as large as the window, to be moved and zoomed.
  function zoomed(picture) {
    const dialog = document.createElement("dialog");
    dialog.className = "cr-zoom";
    dialog.setAttribute("aria-label", picture.alt || picture.querySelector("title")?.textContent || "Picture");
    const copy = picture.cloneNode(true);
    copy.removeAttribute("loading");
    copy.removeAttribute("role");
    const bar = document.createElement("div");
    bar.className = "cr-zoom-bar";
    const stage = document.createElement("div");
    stage.className = "cr-zoom-stage";
    stage.append(copy);
    dialog.append(stage, bar);
    document.body.append(dialog);
    dialog.showModal();
    const panzoom = Panzoom(copy, { maxScale: 20, minScale: 0.5, canvas: true });
    stage.addEventListener("wheel", (event) => panzoom.zoomWithWheel(event), { passive: false });
    const buttons = [
      ["+", "Zoom in", () => panzoom.zoomIn()],
      ["−", "Zoom out", () => panzoom.zoomOut()],
      ["1:1", "Whole picture", () => panzoom.reset()],
      ["×", "Close", () => dialog.close()],
    ];
    for (const [text, label, act] of buttons) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.setAttribute("aria-label", label);
      button.addEventListener("click", act);
      bar.append(button);
    }
    dialog.addEventListener("keydown", (event) => {
      const act = { "+": panzoom.zoomIn, "-": panzoom.zoomOut, 0: panzoom.reset }[event.key];
      if (act) act();
    });
    dialog.addEventListener("close", () => {
      panzoom.destroy();
      dialog.remove();
      picture.focus();
    });
  }

  function canBeZoomed(picture) {
    picture.tabIndex = 0;
    picture.setAttribute("role", "button");
    picture.classList.add("cr-picture");
    picture.addEventListener("click", () => zoomed(picture));
    picture.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        zoomed(picture);
      }
    });
  }

  // The theme adds a bar to each block of code, and a box around each table.  A bar is no landmark,
  // and what has to be scrolled has to be reached by the keyboard.
  function nameParts() {
    for (const bar of document.querySelectorAll("nav.md-code__nav")) bar.role = "presentation";
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
  }

  function begin() {
    const content = document.querySelector(".md-content");
    if (content) new MutationObserver(nameParts).observe(content, { childList: true, subtree: true });
    addEventListener("resize", nameParts);
    nameParts();
    document.querySelectorAll(".md-content img").forEach(canBeZoomed);
    const playground = document.querySelector(".cr-playground");
    if (playground) beginPlayground(playground);
    else if (document.querySelector(".cr-cells")) beginCells();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
