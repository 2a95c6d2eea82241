"""The noise of gradients, from the squared norms of single examples."""
