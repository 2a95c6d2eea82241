// Python in a thread of its own: answers {id, call, args} by {id, result} or {id, failure, fatal}.
import { loadPyodide } from "./python/pyodide.mjs";

const SITE = "/lib/python3.12/site-packages";
const folder = new URL("python/", import.meta.url).href;
const packages = fetch(`${folder}packages.zip`).then((answer) => {
  if (!answer.ok) throw new Error(`packages.zip: ${answer.status}`);
  return answer.arrayBuffer();
});

async function start() {
  const python = await loadPyodide({ indexURL: folder });
  python.unpackArchive(await packages, "zip", { extractDir: SITE });
  return { python, module: python.pyimport("explaining") };
}

const ready = start();
ready.then(
  () => postMessage({ id: 0, result: "ready" }),
  (error) => postMessage({ id: 0, failure: String(error) }),
);

onmessage = async ({ data: { id, call, args } }) => {
  try {
    const { python, module } = await ready;
    const found = module[call](...args);
    const result = found?.toJs ? found.toJs({ dict_converter: Object.fromEntries }) : found;
    found?.destroy?.();
    const file = call === "report" && !result ? python.FS.readFile(args[1]) : undefined;
    postMessage({ id, result, file });
  } catch (error) {
    postMessage({ id, failure: String(error), fatal: Boolean(error.pyodide_fatal_error) });
  }
};
