"""Models that run on this machine, on onnxruntime."""
