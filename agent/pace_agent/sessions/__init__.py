"""Sessions that are kept: their folders and logs, and the journal by which changes are undone."""
