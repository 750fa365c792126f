"""Replicated state machines: a command returns records and a reply, only replay changes state."""
