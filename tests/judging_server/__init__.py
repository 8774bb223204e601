"""The judge server's parts: what is asked, what is answered, what is refused, counted and sent."""
