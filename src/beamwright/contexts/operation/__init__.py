"""Procedures: operational tasks, from registration to their end, and what was done in them."""
