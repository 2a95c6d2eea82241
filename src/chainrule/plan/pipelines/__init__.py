"""Pipelines: stages that work on micro-batches one after the other, and in which order."""
