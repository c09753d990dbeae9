"""Does a training notice that taupy measures it? 30 programs, with and without."""
