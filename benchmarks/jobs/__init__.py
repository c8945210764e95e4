"""Jobs that users bring, each beside what a practitioner would write in an hour: `python -m benchmarks.jobs`."""
