"""Groups of processes that train one run together, and independent jobs."""
