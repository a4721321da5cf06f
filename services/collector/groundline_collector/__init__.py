import groundline_runtime as groundline_runtime  # before anything that imports grpc
