"""Launching a program and timing its routines from inside."""
