"""What later processes find again: the cache folder of the user."""
