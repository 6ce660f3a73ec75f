"""The demonstration: a cluster, two training jobs, an online service and a few murders, in about a minute."""
