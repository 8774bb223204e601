"""What repeated noisy scores tell: reliability, slot curve, windows, sums over a batch. Only numbers."""
