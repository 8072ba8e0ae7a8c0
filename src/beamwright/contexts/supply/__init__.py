"""Continuous resources that work depends on: beam, cryogen, vacuum, electricity, compute."""
