"""One training step on several devices: its graph in pieces, and a program for each rank."""
