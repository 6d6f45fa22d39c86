"""Tool calls in answers: their forms, the grammar that holds a model to them, and reading them."""
