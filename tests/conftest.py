"""Being here puts this folder on the import path: tests of every folder can use `programs`."""
