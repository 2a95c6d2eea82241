"""The version of this library, as pyproject.toml has it."""

VERSION = "0.1.0"
