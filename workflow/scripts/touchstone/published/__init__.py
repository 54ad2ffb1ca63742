"""Published studies: their tables as data, what arithmetic finds in them, and their claims."""
