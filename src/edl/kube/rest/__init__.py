"""The Kubernetes REST API: one method per verb (`client`), and below it retries, rate limits, transports and decoding.

Stateless: what remembers objects belongs to `cache`, and what obtains credentials to `auth`.
"""
