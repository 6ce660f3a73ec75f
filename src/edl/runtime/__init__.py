"""What runs inside the pods of a job. Imports the standard library, msgspec and (for parameters) NumPy, no more."""
