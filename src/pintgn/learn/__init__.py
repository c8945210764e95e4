"""Training and evaluation: tasks, negatives, the training loop, runs, metrics."""
