"""Data pipelines as files: sources, a transform in SQL or Python, a sink. `tidelog pipeline` runs them."""
