"""A run in use: observes new events and answers questions in users' own ids."""
