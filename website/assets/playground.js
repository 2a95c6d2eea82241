// The playground: an editor, and beside it what the program in it means, which follows every edit.
import { editor } from "./editor.js";
import { followingPage } from "./python.js";

const PAUSE = 20; // milliseconds without a key until the program is run
const LONG = 1000; // until the reader can stop it, and an edit does so
const PATIENCE = 10_000; // until it is stopped; the first of the page loads what it needs, too
const FIRST_PATIENCE = 90_000;
const TITLES = { equations: "Equations", python: "NumPy source", text: "Text" };

/** `python` has begun to start; `zoomed` shows a picture as large as the window. */
export async function begin(place, root, { python, zoomed }) {
  const find = (name) => place.querySelector(`.cr-${name}`);
  const katex = script(new URL("assets/vendored/katex.min.js", root));
  const programs = await (await fetch(new URL(place.dataset.programs, root))).json();
  let answer = null;
  let tab = "equations";
  let wanted = false; // whether the program changed while it was being explained
  let busy = false;
  let asked = Infinity; // when the run under way began

  const input = editor(find("editor"), programs[0].text, { changed: soon });
  for (const program of programs) {
    find("program").add(new Option(program.title, program.name));
  }
  find("program").addEventListener("change", (event) => {
    input.text = programs[event.target.selectedIndex].text;
  });
  for (const [name, title] of Object.entries(TITLES)) {
    const button = document.createElement("button");
    button.type = "button";
    button.role = "tab";
    button.dataset.tab = name;
    button.textContent = title;
    button.addEventListener("click", () => choose(name));
    find("tabs").append(button);
  }
  find("tabs").addEventListener("keydown", (event) => {
    const names = Object.keys(TITLES);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    choose(names[(names.indexOf(tab) + step + names.length) % names.length]);
    find("tabs").querySelector(`[data-tab=${tab}]`).focus();
  });
  find("report").addEventListener("click", openReport);
  find("stop").addEventListener("click", () => python.stop());
  find("graph").addEventListener("click", enlarge);
  find("graph").addEventListener("keydown", (event) => event.key === "Enter" && enlarge());
  choose(tab);
  python.ready.then(
    () => { find("report").disabled = false; },
    (error) => say(`Python did not start: ${error.message}`),
  );
  say("starting Python …");
  await explain();
  place.dataset.readySeconds = (performance.now() / 1000).toFixed(2); // since the navigation
  if (answer?.svg) say(`ready in ${place.dataset.readySeconds} s`);

  function enlarge() {
    const picture = find("graph").querySelector("svg");
    if (picture) zoomed(picture);
  }

  function say(text) {
    find("status").textContent = text;
  }

  let timer = 0;
  function soon() {
    clearTimeout(timer);
    timer = setTimeout(explain, PAUSE);
  }

  async function explain() {
    if (busy) {
      wanted = true;
      if (performance.now() - asked > LONG) python.stop();
      return;
    }
    busy = true;
    do {
      wanted = false;
      const start = performance.now();
      const width = Math.max(360, find("graph").clientWidth - 20);
      await python.ready.catch(() => {});
      const patience = answer ? PATIENCE : FIRST_PATIENCE;
      const guard = setTimeout(() => python.stop(), patience);
      const button = setTimeout(() => { find("stop").hidden = false; }, LONG);
      asked = performance.now() + (python.last ? 0 : patience / 2); // the first loads, too
      try {
        show(await python.call("explained", input.text, width));
        const spent = performance.now() - start;
        place.dataset.milliseconds = spent.toFixed(0);
        say(answer.error ? "" : `${answer.name}: ${spent.toFixed(0)} ms`);
      } catch (error) {
        const stopped = error.message === "stopped";
        const after = ((performance.now() - start) / 1000).toFixed(0);
        show({ error: stopped ? `stopped after ${after} s` : error.message });
      }
      clearTimeout(guard);
      clearTimeout(button);
      find("stop").hidden = true;
    } while (wanted);
    busy = false;
  }

  // What is wrong is said below the program; the last picture stays, greyed.
  function show(found) {
    const { error, printed, line } = found;
    input.fail(error && line ? line : null);
    find("error").hidden = !error;
    find("error").textContent = error ? withLine(error, line) : "";
    find("printed").hidden = !printed;
    find("printed").textContent = printed ?? "";
    find("right").classList.toggle("cr-stale", Boolean(error));
    if (error) {
      answer = { ...answer, error };
      return;
    }
    answer = found;
    find("graph").innerHTML = followingPage(found.svg);
    requestAnimationFrame(() => setTimeout(fill)); // when the picture is painted
  }

  function choose(name) {
    tab = name;
    for (const button of find("tabs").children) {
      const chosen = button.dataset.tab === name;
      button.setAttribute("aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
    fill();
  }

  async function fill() {
    const panel = find("panel");
    panel.setAttribute("aria-label", TITLES[tab]);
    if (!answer?.svg) return;
    if (tab !== "equations") {
      const pre = document.createElement("pre");
      pre.textContent = answer[tab];
      panel.replaceChildren(pre);
      return;
    }
    const shown = answer;
    await katex;
    if (shown === answer && tab === "equations") panel.replaceChildren(equations(answer.equations));
  }

  async function openReport() {
    const page = window.open("", "_blank");
    const path = "/tmp/report.html";
    if (!page) {
      say("the browser opens no window for the report");
      return;
    }
    say("running it on random arrays …");
    try {
      const made = await python.call("report", input.text, path);
      if (!made.file) throw new Error(made);
      const blob = new Blob([made.file], { type: "text/html" });
      page.location = URL.createObjectURL(blob);
      say("");
    } catch (error) {
      page.close();
      say(error.message);
    }
  }
}

/** A message that says on which line, where it does not say so itself. */
function withLine(error, line) {
  const said = !line || error.includes(`line ${line}`) || error.includes(`program.py:${line}`);
  return said ? error : `line ${line}: ${error}`;
}

function equations(rows) {
  const table = document.createElement("table");
  table.className = "cr-equations";
  let pass = "";
  for (const [number, during, latex] of rows) {
    if (during !== pass) {
      const head = table.insertRow().insertCell();
      head.colSpan = 2;
      head.className = "cr-pass";
      head.textContent = during[0].toUpperCase() + during.slice(1);
      pass = during;
    }
    const row = table.insertRow();
    row.insertCell().textContent = number ? `(${number})` : "";
    katex.render(latex, row.insertCell(), { displayMode: false, throwOnError: false });
  }
  return table;
}

function script(address) {
  return new Promise((resolve, reject) => {
    const made = document.createElement("script");
    made.src = address;
    made.onload = resolve;
    made.onerror = reject;
    document.head.append(made);
  });
}
