"""Factors of structured matrices: factor, solve, ln det, inverse on the pattern."""
