"""Real TensorFlow, in a virtualenv of its own, in the pods of EasyDL jobs."""
