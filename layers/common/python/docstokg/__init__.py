"""Code shared by all functions."""

import os

__version__ = "0.1.0"

# With two threads OpenBLAS spends 40 ms of processor time on a question's sparse weights, mostly in
# a spin loop; with one, 6 ms. It reads this variable when NumPy is first imported; a value set by
# the user is kept.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
