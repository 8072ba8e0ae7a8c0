"""Adapters of the control seam: Channel Access, HTTP polling, simulated devices, and their registry."""
