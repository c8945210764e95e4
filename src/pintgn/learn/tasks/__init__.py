"""Tasks: the questions that a run can answer. `QUESTIONS` lists them; add your own by its name."""
