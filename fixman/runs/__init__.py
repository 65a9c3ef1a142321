"""Runs of any kind: named arrays of frames and a state, in memory or in one file."""
