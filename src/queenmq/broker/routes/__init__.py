"""Decode, call, encode: one module per noun."""
