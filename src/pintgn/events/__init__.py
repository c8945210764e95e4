"""The log of events: ids, schema, times, splits, its file."""
