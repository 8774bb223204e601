"""Messages → reply text and usage: over HTTP, through litellm, offline."""
