// Under Node: starts Python as the pages do, explains every program, and compiles what that took.
//     node bytecode.mjs FOLDER COMPILING PROGRAMS OUT
// FOLDER has the interpreter and packages.zip, COMPILING is the Python that compiles, PROGRAMS the
// folder of the programs; OUT, an archive, has the bytecode by the path of its source.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const SITE = "/lib/python3.12/site-packages";
const [folder, compiling, programs, out] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: folder });
const packages = new Uint8Array(readFileSync(`${folder}/packages.zip`));
python.unpackArchive(packages, "zip", { extractDir: SITE });
python.runPython("import sys; sys.dont_write_bytecode = False");
const explaining = python.pyimport("explaining");
for (const name of readdirSync(programs).filter((one) => one.endsWith(".py")).sort()) {
  const source = readFileSync(`${programs}/${name}`, "utf8");
  explaining.explained(source, 900);
  if (name === "book.py") explaining.report(source, "/tmp/report.html");
}
python.runPython(readFileSync(compiling, "utf8"));
writeFileSync(out, python.FS.readFile("/tmp/bytecode.zip"));
