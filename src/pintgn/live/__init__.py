"""A run in use: the state after its log, which observes what happens and answers in users' own ids."""
