"""Reasons of targets: stable codes, and sentences with numbers. Explains decisions and makes none."""
