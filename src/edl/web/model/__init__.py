"""What there is to see: rows, sums, series and views, kept up from the caches. Knows nothing of viewers."""
