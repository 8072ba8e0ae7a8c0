"""Run: one execution of a plan, the gate that lets it start, and what it measured."""
