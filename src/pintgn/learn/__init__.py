"""How good: negatives, training, measuring."""
