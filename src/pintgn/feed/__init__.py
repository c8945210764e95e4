"""Feeds: events from Kafka, NATS, PostgreSQL or a growing file into a service, exactly once."""
