"""What the user has set: config, instructions for agents, trusted folders."""
