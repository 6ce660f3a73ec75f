"""Commands about clusters: the embedded one, installing on another, diagnosis.

Options and output: the work is in `edl.cli.local`, `edl.install` and `edl.doctor`.
"""
