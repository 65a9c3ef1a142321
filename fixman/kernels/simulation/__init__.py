"""Steps in time: what holds a chain, and the driver over steps."""
