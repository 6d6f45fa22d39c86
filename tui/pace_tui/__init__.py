"""The terminal front end: draws the agent's events and sends what the user says; decides nothing."""
