"""Says of a cluster and of a job what is wrong with it and what to do: pure judgements on what was read elsewhere."""
