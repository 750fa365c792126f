"""The four ports to the outside (clock, files, network, entropy), each real and simulated."""
