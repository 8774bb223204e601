"""Kinds of containers, a module each."""
