"""Protects applications with Deputize. Import from `deputize.guard` or `deputize.webhook`."""
