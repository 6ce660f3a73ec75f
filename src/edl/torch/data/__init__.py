"""What elastic training makes of a script's data sets: random numbers by sample, and streams in shards."""
