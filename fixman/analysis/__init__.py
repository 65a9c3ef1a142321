"""Measurements: audits of trajectories, stress and viscosity, free energies, figures."""
