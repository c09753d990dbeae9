"""Facts and measurements of the machine."""
