"""One module for each API. Handlers do not know each other."""
