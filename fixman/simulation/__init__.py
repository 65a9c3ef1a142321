"""Motion in time: steppers, the loop around them, what is recorded, and runs on disk."""
