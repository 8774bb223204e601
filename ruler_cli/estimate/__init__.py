"""Groups → what judging them would take, without a call: laid out one by one, or extrapolated from some."""
