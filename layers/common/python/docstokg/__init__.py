"""What every step of DocsToKG RAG shares: contracts, ports, pure rules, adapters, wiring."""

import os

__version__ = "0.1.0"

# A question's matrices are too small to share: with two threads OpenBLAS spends 40 ms of processor
# time on a question's sparse weights, most of it waiting in a loop, with one 6 ms. The library
# reads this once, when NumPy is first imported; who sets the variable keeps the choice.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
