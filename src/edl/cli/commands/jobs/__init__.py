"""Commands about jobs: submit, watch, change, explain. One file each; what several need is in `edl.cli.connect`."""
