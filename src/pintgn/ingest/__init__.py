"""Files, databases and frames become a log of events."""
