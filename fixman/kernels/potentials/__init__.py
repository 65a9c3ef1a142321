"""Energies and forces of chains, bonded and not, and lists of neighbours."""
