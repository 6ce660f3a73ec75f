"""What EDL is on a cluster: every object of an installation, as `edl install` prints it, as the Helm chart holds it
and as `edl uninstall` removes it."""
