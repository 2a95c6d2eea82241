// Lays out drawings in several states: [[drawing, [[keys of open scopes], ...]], ...] from the
// standard input.  For each state: the places, and where items are seen (of large drawings the first
// ones).
import { readFileSync } from "node:fs";

const { boxOf, layoutOf, pathTo } = await import(process.argv[2]);

function laidOut(drawing, open) {
  const { boxes, ...rest } = layoutOf(drawing, open);
  const places = [...boxes].map(([key, { x, y, width, height, item, scope, mirrored }]) => {
    const told = { form: item.form, item: item.key, below: item.below ?? 0, scope: scope?.key };
    return { key, x, y, width, height, ...told, mirrored };
  });
  const keys = drawing.items.slice(0, 1000).map(({ key }) => key);
  const shown = keys.map((key) => [key, boxOf(drawing, open, key), pathTo(drawing, key)]);
  return { ...rest, boxes: places, shown };
}

const found = JSON.parse(readFileSync(0, "utf8")).map(([drawing, states]) =>
  states.map((open) => laidOut(drawing, new Set(open))),
);
console.log(JSON.stringify(found));
