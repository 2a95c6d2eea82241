"""How large a batch: what each takes, and which one is worth it."""
