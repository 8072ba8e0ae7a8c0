"""Subjects: whatever is measured, where it is in its handling cycle, and who holds it."""
