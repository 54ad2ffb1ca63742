"""The commands of `touchstone`, one file each, found by its name."""
