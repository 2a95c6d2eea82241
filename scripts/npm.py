"""One package of the npm registry as the bytes of its files, its integrity checked.

Only the standard library, so that a script needs no npm.
"""

import base64
import hashlib
import io
import tarfile
import urllib.request
from dataclasses import dataclass

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
        return f"{REGISTRY}/{self.name}/-/{self.name}-{self.version}.tgz"


def files_of(package: Package) -> dict[str, bytes]:
    """The content of every file of the package, by its path; SystemExit where it is not the one."""
    with urllib.request.urlopen(package.url, timeout=180) as answer:
        archive = answer.read()
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != package.integrity:
        raise SystemExit(f"{package.url} has {found}, and {package.integrity} was expected")
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            stream = opened.extractfile(member)
            if stream is not None:
                files[member.name.removeprefix("package/")] = stream.read()
    return files
