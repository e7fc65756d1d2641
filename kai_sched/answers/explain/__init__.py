"""Answers to what people ask about a cluster."""
