// The tab Ranks, of a step that is split: when each rank does what, and the bytes of each.

import { element } from "./dom.js";
import { bytesText } from "./words.js";

/**
 * @param {import("./chips.js").Page} page
 * @returns {HTMLElement}
 */
export function createRanks({ data: { ranks } }) {
  const picture = element(
    "picture",
    {},
    element("source", { media: "(max-width: 800px)", srcset: imageOf(ranks.narrow_timeline) }),
    element("img", { src: imageOf(ranks.timeline), alt: ranks.text }),
  );
  return element("div", { class: "ranks-view", tabindex: 0 }, picture, tableOf(ranks));
}

function imageOf(svg) {
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

function tableOf(ranks) {
  const row = (kind, nbytes) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, kind),
      ...nbytes.map((one) => element("td", { title: `${one} bytes` }, bytesText(one))),
    );
  const heads = ranks.ranks.map((one) => element("th", { scope: "col" }, one));
  const corner = element("th", { scope: "col" }, "bytes at the peak");
  const rows = ranks.memory.map(({ kind, nbytes }) => row(kind, nbytes));
  return element(
    "table",
    { class: "ranks" },
    element("thead", {}, element("tr", {}, corner, ...heads)),
    element("tbody", {}, ...rows),
    element(
      "tfoot",
      {},
      row("peak", ranks.peak_nbytes),
      row("if messages wait", ranks.most_nbytes),
    ),
  );
}
