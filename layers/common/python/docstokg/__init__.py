"""What every step of DocsToKG RAG shares: contracts, ports, pure rules, adapters, wiring."""

__version__ = "0.1.0"
