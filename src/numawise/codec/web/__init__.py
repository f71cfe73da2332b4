"""Requests to the web server, as values."""
