"""Judge requests by the batch APIs of providers: half the price, within a day."""
