"""One configuration: Partition, forward and inverse dynamics, the metric and its force."""
