"""Actions of the command ``pace``, one a file."""
