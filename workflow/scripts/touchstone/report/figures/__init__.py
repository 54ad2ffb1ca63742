"""The figures of a study, one file each."""
