"""Code shared by all functions."""

import os

__version__ = "0.1.0"

# Read by vendor packages when they are first imported; a value set by the user is kept.
# OpenBLAS: with two threads it spends 40 ms of processor time on a question's sparse weights,
# mostly in a spin loop; with one, 6 ms. The others turn off telemetry, and litellm's download of
# prices.
for _name, _value in {
    "OPENBLAS_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
}.items():
    os.environ.setdefault(_name, _value)
