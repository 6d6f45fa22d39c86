"""Changes of texts: search and replace, definitions put in the place of others, code out of answers."""
