"""Events from where they arise (Kafka, NATS, PostgreSQL, a growing file) into a service, exactly once."""
