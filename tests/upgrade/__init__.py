"""From the version before to this one: what it left is taken over, and running jobs do not notice."""
