"""The paper's tables and figures again: jobs, a runner that can be killed at any time, tables, plots, a page."""
