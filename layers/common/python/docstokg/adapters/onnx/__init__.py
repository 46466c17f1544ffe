"""Local models on onnxruntime."""
