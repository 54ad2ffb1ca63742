"""What `check-gpu` does beside running cells."""
