"""The client's decisions without I/O: no socket, clock, thread or chance. The fronts around it do what it says."""
