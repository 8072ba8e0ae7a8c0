"""Calibrations: measured constants of equipment, and every value they have had."""
