"""How well scores agree with labels, and judges with one another: scored groups → figures with intervals."""
