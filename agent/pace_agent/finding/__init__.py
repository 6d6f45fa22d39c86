"""Searching and listing files."""
