"""Independent chains: samples of an ensemble, the transfer operator, closed forms."""
