"""Check any draft against its sources and the graph."""
