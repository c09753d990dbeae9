"""Facts about hardware as data, each with its source: counters, chips, datasheets."""
