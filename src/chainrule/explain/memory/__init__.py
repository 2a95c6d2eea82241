"""Predicts the memory of training and prediction, to the byte, and says what it is for."""
