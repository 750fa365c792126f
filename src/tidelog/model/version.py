"""The package's version, in the one place from which the build, the client and the command line take it."""

__version__ = "0.1.0"
