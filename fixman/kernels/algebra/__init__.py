"""Vectors and small matrices, random numbers, and a finite field."""
