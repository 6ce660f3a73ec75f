"""Reading what commands are given: manifests with line numbers, snapshots, scripts. Needs no cluster."""
