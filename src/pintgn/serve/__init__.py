"""The service: a durable stream of events, an HTTP interface to it, and a page."""
