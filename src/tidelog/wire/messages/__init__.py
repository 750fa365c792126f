"""One module for each API, one class for all of its versions."""
