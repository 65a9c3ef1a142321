"""The commands of ``fixman``, one file each."""
