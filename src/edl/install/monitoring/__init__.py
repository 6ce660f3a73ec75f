"""What an installation brings for Prometheus' operator and Grafana: monitors, alerts, a dashboard.

A test compares the metrics in all queries with the catalogues of operator and Brain.
"""
