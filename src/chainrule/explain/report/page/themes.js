// Light and dark: as the system says until a person chooses; the drawing's palette goes with it.

import { element } from "./dom.js";

const DARK_WANTED = "(prefers-color-scheme: dark)";

/**
 * Sets the colours of the page and keeps them right; "auto" follows the system. Called before the
 * views are made, so that they find the new colours when they hear of them.
 * @param {import("./store.js").Store} store
 * @param {any} colours of the drawing
 */
export function followTheme(store, colours) {
  const system = matchMedia(DARK_WANTED);
  const isDark = () => {
    const { theme } = store.state;
    return theme === "auto" ? system.matches : theme === "dark";
  };
  const settle = () => store.set({ dark: isDark() });
  const apply = () => applyTheme(store.state.dark ? "dark" : "light", colours);
  store.subscribe(["dark"], apply);
  store.subscribe(["theme"], settle);
  system.addEventListener("change", settle);
  addEventListener("beforeprint", () => applyTheme("light", colours));
  addEventListener("afterprint", apply);
  settle();
  apply();
}

function applyTheme(theme, colours) {
  const root = document.documentElement;
  root.dataset.theme = theme;
  const palette = colours[theme];
  for (const [name, colour] of Object.entries(palette)) {
    if (typeof colour === "string") root.style.setProperty(`--drawing-${name}`, colour);
  }
  for (const [role, fill] of Object.entries(palette.fills)) {
    root.style.setProperty(`--fill-${role}`, fill);
    root.style.setProperty(`--outline-${role}`, palette[colours.outlines[role]]);
  }
}

/**
 * The button between light and dark.
 * @param {import("./store.js").Store} store
 * @returns {HTMLElement}
 */
export function createThemeButton(store) {
  const change = () => store.set({ theme: store.state.dark ? "light" : "dark" });
  const button = element("button", { type: "button", id: "theme", click: change });
  const write = () => {
    const { dark } = store.state;
    button.textContent = dark ? "Light" : "Dark";
    button.title = `Change to ${dark ? "light" : "dark"} colours`;
  };
  store.subscribe(["dark"], write);
  write();
  return button;
}
