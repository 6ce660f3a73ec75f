"""Models that the workers of a pod share (`fully_shard`) while every pod has a whole one, and the pieces of them."""
