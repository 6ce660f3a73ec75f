"""The steps of a scheduling cycle, in the order in which `plan` takes them. Who comes first is for `policies`."""
