"""The outside world ↔ chains and arrays: one file per optional package, its only importer."""
