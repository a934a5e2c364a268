"""The guard in web frameworks."""
