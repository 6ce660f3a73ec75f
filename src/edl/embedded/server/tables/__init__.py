"""Tables, as `kubectl get` prints them: columns and cells per kind. Reads objects and changes none."""
