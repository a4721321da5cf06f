"""The `local` provider: ONNX models in this process, through fastembed."""
