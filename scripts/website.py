"""Builds the site of the documentation, and serves it: the pages, reports, course, playground.

    python3 scripts/website.py            builds it into .website/site
    python3 scripts/website.py --serve    builds it, and serves it at http://localhost:8000

Makes the virtual environment .venv-website the first time.  Needs a connection then, to the Python
Package Index and the npm registry; what it fetches stays in .website/fetched, and the site itself
fetches nothing from elsewhere.  Any server of static files can serve the folder.
"""

import argparse
import functools
import http.server
import subprocess
import sys

import environment

FOLDER = ".venv-website"
SITE = environment.ROOT / ".website" / "site"


def main(arguments):
    """Builds, and serves until it is interrupted."""
    environment.require_python()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--serve", action="store_true", help="serve the site when it is built")
    parser.add_argument("--port", type=int, default=8000, help="of the server (%(default)s)")
    options = parser.parse_args(arguments)
    python = environment.prepare(FOLDER, "[site]")
    build = [str(python), str(environment.ROOT / "website" / "build.py"), str(SITE)]
    status = subprocess.run(build, cwd=environment.ROOT, check=False).returncode
    if status == 0 and options.serve:
        serve(options.port)
    return status


def serve(port):
    """Serves the folder on this machine alone."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://localhost:{port}  (end with Ctrl+C)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
