"""What several adapters share to read records."""
