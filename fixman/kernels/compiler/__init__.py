"""Kernels on disk, steps that are written into kernels, lanes, and addresses."""
