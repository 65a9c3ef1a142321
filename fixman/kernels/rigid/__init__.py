"""Chains of rigid bodies, one file a published algorithm."""
