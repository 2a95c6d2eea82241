"""`evaluate` and `predict`: forward propagation alone, batch by batch."""
