"""What is in a repository: its files, what they define and use, and what a text names of it."""
