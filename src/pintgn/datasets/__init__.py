"""Public data sets by name, and simulated worlds with known ground truth."""
