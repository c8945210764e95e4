"""Runs → one page: what is in the data, what was learned, how good it is, where it fails, how to do it again."""
