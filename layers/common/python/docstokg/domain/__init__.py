"""Domain rules: pure functions without clock, network or vendor code."""
