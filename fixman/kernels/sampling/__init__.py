"""Moves of Monte Carlo, and independent chains."""
