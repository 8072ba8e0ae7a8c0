"""The catalogue's acceptance examples, against the real running service."""
