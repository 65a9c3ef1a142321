"""The gate for arguments, and statistics of correlated series."""
