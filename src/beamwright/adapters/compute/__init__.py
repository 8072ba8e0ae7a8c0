"""Adapters of the compute seam: programs on this machine, seeded results in memory, and their registry."""
