"""Which values to compute again, and when, so that a program fits into a budget of bytes."""
