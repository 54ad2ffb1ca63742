"""One run's files, its record, and the tables of a study."""
