"""In Pyodide: archives the bytecode of every module that is loaded, by the path of its source.

Python does not compare it with the source: both come from one archive.
"""

import importlib.util
import marshal
import sys
import zipfile
from pathlib import Path

HEAD = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")  # 1: a hash, which nobody checks

with zipfile.ZipFile("/tmp/bytecode.zip", "w") as archive:
    for name in sorted(sys.modules):
        spec = getattr(sys.modules[name], "__spec__", None)
        origin = getattr(spec, "origin", None)
        if not origin or not origin.startswith("/lib/") or not origin.endswith(".py"):
            continue
        source = spec.loader.get_source(name)
        if spec.cached and Path(spec.cached).exists():  # the import has compiled it
            code = Path(spec.cached).read_bytes()[16:]
        else:
            code = marshal.dumps(compile(source, origin, "exec", dont_inherit=True))
        digest = importlib.util.source_hash(source.encode())
        archive.writestr(origin.removeprefix("/lib/"), HEAD + digest + code)
