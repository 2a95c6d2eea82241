"""`Trainer`: epochs of steps, shown, saved and resumed."""
