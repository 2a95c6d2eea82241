"""The values of a run in a table: what each is, and how large."""
