"""Public logs by name, and simulated worlds whose truth is known."""
