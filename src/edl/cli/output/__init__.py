"""Showing results: tables, and screens that follow jobs. Decides nothing."""
