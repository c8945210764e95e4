"""The paper's tables and figures again: jobs, a runner that can be killed at any time, tables, plots, a page.

Beside the package, not in it: `python -m paper table1` at the top of a checkout, or `make reproduce`.
"""
