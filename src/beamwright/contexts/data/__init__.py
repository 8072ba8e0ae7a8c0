"""Data: what was measured or made, how to verify it, what it came from, and how far it is trusted."""
