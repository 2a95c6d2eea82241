// Opens the page: unpacks the data, starts the program, and says in the page when that fails.
import { start } from "./page.js";

async function unpackedData() {
  const text = document.getElementById("data").textContent;
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function painted() {
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}

function showFailure(error) {
  const message = document.createElement("p");
  message.setAttribute("role", "alert");
  message.textContent =
    `This report could not be shown: ${error}. ` +
    "It needs Chrome 111, Firefox 113, Safari 16.4, or a newer one.";
  document.body.prepend(message);
}

async function boot() {
  const state = document.documentElement.dataset;
  try {
    await start(document.body, await unpackedData());
    if (document.visibilityState === "visible") await painted();
    performance.mark("ready");
    state.ready = "true";
  } catch (error) {
    showFailure(error);
    state.ready = "failed";
    throw error;
  }
}

boot();
