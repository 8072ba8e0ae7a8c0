"""Interlock-gated volumes, and the permit that the facility's own interlock system reports for each."""
