"""The plan of a task, and what each of its steps reads."""
