"""Widgets: each draws one thing, and sends messages up."""
