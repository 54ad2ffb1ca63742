"""Questions that are put to a study."""
