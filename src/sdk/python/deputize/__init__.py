"""Protects applications, and gives agents authority. Import from `guard`, `agent` or `webhook`."""
