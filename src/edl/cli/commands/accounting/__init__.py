"""Commands about what was: the history of jobs, and the account of a period. Both ask the Brain."""
