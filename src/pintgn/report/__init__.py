"""Reports: one HTML page about runs, with data, figures, differences, failures and settings."""
