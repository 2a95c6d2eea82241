// The Python of a page as cells: each can be changed and run, after those above it.
import { editor } from "./editor.js";
import { followingPage, Python } from "./python.js";

const LONG = 1000; // milliseconds until the reader can stop a cell

/** `canBeZoomed` makes a picture open as large as the window. */
export function begin(page, root, canBeZoomed) {
  const blocks = [...page.querySelectorAll(".md-content .language-python.highlight")];
  const name = location.pathname;
  let python = null; // started by the first run
  let running = null; // the cell that can be stopped
  const cells = blocks.map((block, place) => cell(block, place));

  function cell(block, place) {
    const source = block.querySelector("code").textContent.replace(/\n$/, "");
    const after = block.nextElementSibling;
    const promised = after?.matches(".language-text.highlight") ? after : null;
    const box = document.createElement("div");
    box.className = "cr-cell";
    const bar = document.createElement("div");
    bar.className = "cr-cell-bar";
    const run = document.createElement("button");
    run.type = "button";
    const status = document.createElement("span");
    status.setAttribute("role", "status");
    bar.append(run, status);
    const output = document.createElement("div");
    output.className = "cr-cell-output";
    output.setAttribute("aria-live", "polite");
    block.replaceWith(box);
    nameButton({ run, place }, "Run");
    const made = { place, run, status, output, promised, current: false };
    made.input = editor(box, source, {
      label: `Cell ${place + 1}`,
      changed: () => { made.current = false; },
      keys: [{ key: "Shift-Enter", run: () => (runTo(place), true) }],
    });
    box.append(bar, output);
    if (promised) output.append(promised);
    run.addEventListener("click", () => (running === made ? python.stop() : runTo(place)));
    return made;
  }

  function offerStop(one) {
    running = one;
    nameButton(one, "Stop");
  }

  function nameButton({ run, place }, text) {
    run.textContent = text;
    run.setAttribute("aria-label", `${text} cell ${place + 1}`);
  }

  // Runs the cells above that have not been run as they are now, then this one.
  async function runTo(last) {
    cells[last].current = false;
    for (const one of cells.slice(0, last + 1)) {
      if (one.current) continue;
      for (const later of cells.slice(one.place + 1)) later.current = false;
      if (!(await runOne(one))) return;
    }
  }

  async function runOne(one) {
    python ??= new Python(root);
    one.status.textContent = "starting Python …";
    const start = performance.now();
    let found;
    let button = 0;
    try {
      await python.ready;
      one.status.textContent = "running …";
      button = setTimeout(() => offerStop(one), LONG);
      found = await python.call("ran", name, `cell ${one.place + 1}`, one.input.text);
    } catch (error) {
      found = { error: error.message, printed: "", html: "" };
      for (const other of cells) other.current = false; // their names are gone
    }
    clearTimeout(button);
    running = null;
    nameButton(one, "Run");
    one.input.fail(found.error && found.line ? found.line : null);
    one.current = !found.error;
    one.status.textContent = `${((performance.now() - start) / 1000).toFixed(1)} s`;
    const parts = [];
    for (const [text, kind] of [[found.printed, "printed"], [found.error, "error"]]) {
      if (!text) continue;
      const pre = document.createElement("pre");
      pre.className = `cr-${kind}`;
      pre.textContent = text;
      parts.push(pre);
    }
    if (found.html) {
      const shown = document.createElement("div");
      shown.className = "cr-shown";
      shown.innerHTML = followingPage(found.html);
      shown.querySelectorAll("svg").forEach(canBeZoomed);
      parts.push(shown);
    }
    one.output.replaceChildren(...parts);
    return one.current;
  }
}
