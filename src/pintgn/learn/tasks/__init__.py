"""Tasks: the questions that a run can be asked. `QUESTIONS` says which there are; add your own by its name."""
