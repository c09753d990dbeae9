"""What a layer of a network is, for each framework: data, one file per framework."""
