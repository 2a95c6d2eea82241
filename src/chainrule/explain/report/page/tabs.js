// The bottom of the page: three views, one at a time.

import { element } from "./dom.js";

/**
 * @param {import("./chips.js").Page} page
 * @param {{key: string, title: string, view: HTMLElement}[]} tabs
 * @returns {HTMLElement}
 */
export function createTabs(page, tabs) {
  const { store } = page;
  const choose = (key) => store.set({ tab: key });
  const buttons = tabs.map(({ key, title, view }) => {
    view.id = `panel-${key}`;
    view.setAttribute("role", "tabpanel");
    view.setAttribute("aria-labelledby", `tab-${key}`);
    return element(
      "button",
      {
        type: "button",
        id: `tab-${key}`,
        role: "tab",
        "aria-controls": view.id,
        click: () => choose(key),
      },
      title,
    );
  });
  const list = element("div", { role: "tablist", "aria-label": "Views of the whole" }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1 };
    if (!(event.key in moves)) return;
    const at = tabs.findIndex((tab) => tab.key === store.state.tab);
    const next = (at + moves[event.key] + tabs.length) % tabs.length;
    choose(tabs[next].key);
    buttons[next].focus();
    event.preventDefault();
    event.stopPropagation();
  });
  const write = () => {
    tabs.forEach(({ key, view }, place) => {
      const here = key === store.state.tab;
      view.hidden = !here;
      buttons[place].setAttribute("aria-selected", String(here));
      buttons[place].tabIndex = here ? 0 : -1;
    });
  };
  store.subscribe(["tab"], write);
  write();
  return element(
    "section",
    { class: "bottom", "aria-label": "Views" },
    list,
    ...tabs.map((tab) => tab.view),
  );
}
