"""Decisions: consequential choices of people and agents, recorded once and never edited."""
