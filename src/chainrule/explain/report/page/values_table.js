// The tab Values: all of them in a table that can be sorted and filtered; only rows in sight exist.

import { swatch, valueLabel } from "./chips.js";
import { element, oncePerFrame } from "./dom.js";
import { sortedBy, tableColumns } from "./table_columns.js";
import { counted } from "./words.js";

const ROW_HEIGHT = 25;
const SPARE_ROWS = 10;

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createValuesTable(page) {
  return new ValuesTable(page).view;
}

class ValuesTable {
  constructor(page) {
    this.page = page;
    const name = {
      key: "name",
      title: "name",
      number: false,
      text: (value) => value.name,
      order: (value) => value.name.toLowerCase().replace(/\d+/g, (all) => all.padStart(9, "0")),
    };
    this.columns = [name, ...tableColumns(page)];
    this.sort = null; // in the order of the program
    this.filter = element("input", {
      type: "search",
      placeholder: "filter by name, kind, shape, line",
      "aria-label": "Filter the table",
      spellcheck: "false",
      input: () => this.choose(),
    });
    this.count = element("span", { class: "muted", role: "status" });
    this.heads = this.columns.map((column) => this.#head(column));
    this.body = element("tbody");
    this.table = element(
      "table",
      { class: "values", "aria-label": "Values" },
      element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...this.heads)),
      this.body,
    );
    this.scroller = element(
      "div",
      { class: "scroller", tabindex: 0, role: "group", "aria-label": "Table of values" },
      this.table,
    );
    const bar = element("div", { class: "table-bar" }, this.filter, this.count);
    this.view = element("div", { class: "values-view" }, bar, this.scroller);
    this.draw = oncePerFrame(() => this.#rows());
    this.scroller.addEventListener("scroll", this.draw, { passive: true });
    new ResizeObserver(this.draw).observe(this.scroller);
    page.store.subscribe(["selected"], () => this.#follow());
    page.store.subscribe(["listed"], ({ listed }) => this.#list(listed));
    page.store.subscribe(["cursor", "tab"], this.draw);
    this.choose();
  }

  /** Filter and sort again. */
  choose() {
    const { values } = this.page.model;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = values.map((_, id) => id);
    const kept = words.length ? all.filter((id) => this.#matches(id, words)) : all;
    this.ids = this.sort ? sortedBy(values, kept, this.sort.column, this.sort.falling) : kept;
    this.count.textContent = counted(this.ids.length, "value");
    this.table.setAttribute("aria-rowcount", String(this.ids.length + 1));
    this.heads.forEach((head, place) => {
      const here = this.columns[place] === this.sort?.column;
      if (here) head.setAttribute("aria-sort", this.sort.falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.scroller.scrollTop = 0;
    this.draw();
  }

  #matches(id, words) {
    const value = this.page.model.values[id];
    this.texts ??= new Map();
    let text = this.texts.get(id);
    if (text === undefined) {
      text = this.columns
        .slice(0, 5)
        .map((column) => column.text(value, id))
        .join(" ");
      text = `${text} ${this.columns.at(-1).text(value, id)}`.toLowerCase();
      this.texts.set(id, text);
    }
    return words.every((word) => text.includes(word));
  }

  /** Shows the values that have some words, sorted by a column, the largest first. */
  #list({ words, by }) {
    this.filter.value = words;
    const at = this.columns.findIndex(({ key }) => key === by);
    this.sort = { column: this.columns[at], falling: true };
    this.choose();
    const nearest = { block: "nearest", inline: "nearest" };
    requestAnimationFrame(() => this.heads[at].scrollIntoView(/** @type {any} */ (nearest)));
  }

  /** A click sorts, a second one the other way, a third one puts the order of the program back. */
  #head(column) {
    const sort = () => {
      const again = this.sort?.column === column;
      const falling = again ? !column.number : column.number;
      this.sort = again && this.sort.falling === falling ? null : { column, falling };
      this.choose();
    };
    const button = element("button", { type: "button", click: sort }, column.title);
    return element("th", { scope: "col", class: column.number ? "number" : null }, button);
  }

  #rows() {
    if (this.page.store.state.tab !== "values") return;
    const height = this.scroller.clientHeight;
    const first = Math.max(Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - SPARE_ROWS, 0);
    const most = Math.ceil(height / ROW_HEIGHT) + 2 * SPARE_ROWS;
    const last = Math.min(first + most, this.ids.length);
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(this.#row(place));
    this.scroller.style.scrollPaddingLeft = `${this.heads[0].offsetWidth}px`;
    const held = document.activeElement?.closest?.("tr[data-value-id]")?.dataset.valueId;
    this.body.replaceChildren(
      ...spacer(first * ROW_HEIGHT),
      ...rows,
      ...spacer((this.ids.length - last) * ROW_HEIGHT),
    );
    if (held)
      this.body.querySelector(`tr[data-value-id="${held}"] button`)?.focus({ preventScroll: true });
  }

  #row(place) {
    const id = this.ids[place];
    const { model, store, actions } = this.page;
    const value = model.values[id];
    const go = () => actions.reveal(id);
    const attributes = { type: "button", class: "value-name" };
    const button = element("button", attributes, swatch(value.kind), valueLabel(this.page, id));
    button.title = value.name;
    const cells = this.columns.slice(1).map((column) => {
      const text = column.text(value, id);
      const strange = column.key === "nan" && text !== "0" && text !== "–";
      const look = `${column.number ? "number" : ""}${strange ? " strange" : ""}`;
      return element("td", { class: look || null }, text);
    });
    const now = model.stateOf(id, store.state.cursor);
    return element(
      "tr",
      {
        "data-value-id": id,
        "data-state": now,
        "aria-rowindex": place + 2,
        class: store.state.selected === id ? "selected" : null,
        click: go,
      },
      element("th", { scope: "row" }, button),
      ...cells,
    );
  }

  /** Brings the row of what is selected into sight. */
  #follow() {
    if (this.page.store.state.tab !== "values") return;
    const place = this.ids.indexOf(this.page.store.state.selected);
    const { scrollTop, clientHeight } = this.scroller;
    const top = place * ROW_HEIGHT;
    if (
      place >= 0 &&
      clientHeight &&
      (top < scrollTop || top > scrollTop + clientHeight - 3 * ROW_HEIGHT)
    ) {
      this.scroller.scrollTop = top - clientHeight / 2;
    }
    this.draw();
  }
}

function spacer(height) {
  if (!height) return [];
  const row = element("tr", { class: "spacer", "aria-hidden": "true" }, element("td"));
  row.style.height = `${height}px`;
  return [row];
}
