"""Graph → graph: one pass a file, the file's name is the pass's name in `anyshape opt -p`."""
