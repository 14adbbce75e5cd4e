"""Targets other than the machine that this program runs on."""
