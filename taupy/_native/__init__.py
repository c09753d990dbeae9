"""Compiled code: the call-path engine. Nothing here is needed for taupy to work."""
