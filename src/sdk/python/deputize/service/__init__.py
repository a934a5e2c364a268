"""Calls of the service."""
