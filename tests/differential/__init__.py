"""What the commands print on recorded trials, so that a change of the inside changes no answer."""
