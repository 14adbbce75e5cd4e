"""Graphs that TorchDynamo and AOTAutograd hand over while a program runs, as `dhlo` graphs."""
