"""The metadata quorum as a pure state machine: `machine.Quorum.step(now_ms, event)` returns what should happen."""
