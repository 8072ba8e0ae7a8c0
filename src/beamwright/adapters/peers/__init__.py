"""Adapters of the seam to other installations."""
