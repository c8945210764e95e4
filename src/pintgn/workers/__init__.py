"""Processes that compute one thing together, and work that is shared out over independent ones."""
