"""A chain: its coordinates, which of them are hard, and the order in which H^bb is factored."""
