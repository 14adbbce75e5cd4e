"""From a model to a running program: the pipeline, the compilation, the report."""
