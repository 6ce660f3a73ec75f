"""What `edl install --apply` and `edl uninstall` do to a cluster: apply, prune, remove."""
