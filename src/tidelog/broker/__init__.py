"""The broker process: assembly, connections, dispatch, one handler for each API."""
