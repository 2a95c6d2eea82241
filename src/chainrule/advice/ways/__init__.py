"""Which way to train a step: every way that there is, with what each takes."""
