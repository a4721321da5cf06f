"""Use cases, one module for each resource; none knows gRPC, SQL or generated code."""
