"""Files as the agent knows and writes them."""
