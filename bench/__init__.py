"""Measurements of anyshape beside its peers: `python -m bench`."""
