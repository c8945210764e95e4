"""Events from where they arise (Kafka, PostgreSQL, a growing file) into a service, exactly once."""
