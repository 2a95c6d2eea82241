// A button that puts a text on the clipboard, also where the page is a plain file.

import { element } from "./dom.js";

/**
 * @param {string} text
 * @returns {HTMLElement}
 */
export function copyButton(text) {
  const button = element("button", { type: "button", class: "quiet" }, "copy");
  button.setAttribute("aria-label", `Copy ${text}`);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "copied" : "select it";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByCommand(text);
  }
}

function copiedByCommand(text) {
  const area = element("textarea", { class: "out-of-sight", readonly: true });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
