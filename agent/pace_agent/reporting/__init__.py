"""A run told to people and programs, without a screen."""
