"""The version of this library, equal to that of pyproject.toml."""

VERSION = "0.1.0"
