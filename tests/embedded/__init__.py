"""Tests of the embedded cluster: whole, and by part. `edl up` itself is tested in `tests/cli/local`."""
