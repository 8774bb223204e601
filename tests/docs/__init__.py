"""Checks of README.md and the pages of `docs/`: what they show is what the command does."""
