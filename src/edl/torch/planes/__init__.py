"""Device planes: how gradients are summed where they lie, beside gloo on the host."""
