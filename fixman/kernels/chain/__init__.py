"""One configuration of a chain: rows, the hard block, motion, the metric, projection."""
