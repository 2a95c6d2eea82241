"""One package of the npm registry as the bytes of its files, its integrity checked.

Only the standard library, so that a script needs no npm.
"""

import base64
import hashlib
import io
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

REGISTRY = "https://registry.npmjs.org"


@dataclass(frozen=True)
class Package:
    """A package, one version of it, and the SHA-512 that the registry gives (`dist.integrity`)."""

    name: str
    version: str
    integrity: str

    @property
    def url(self) -> str:
        """Where the registry has the package."""
        bare = self.name.rpartition("/")[2]
        return f"{REGISTRY}/{self.name}/-/{bare}-{self.version}.tgz"


def files_of(package: Package, cache: Path | None = None) -> dict[str, bytes]:
    """The content of every file of the package, by its path; SystemExit where it is not the one.

    The archive is taken from the folder `cache` where it is there, else fetched, and put there.
    """
    name = f"{package.name.replace('/', '-')}-{package.version}.tgz"
    if cache is not None and (cache / name).exists():
        archive = (cache / name).read_bytes()
    else:
        with urllib.request.urlopen(package.url, timeout=180) as answer:
            archive = answer.read()
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != package.integrity:
        raise SystemExit(f"{package.url} has {found}, and {package.integrity} was expected")
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(archive)
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            stream = opened.extractfile(member)
            if stream is not None:
                files[member.name.removeprefix("package/")] = stream.read()
    return files
