"""The edge of the metadata quorum: what the machine of `tidelog.raft` decides is done here, on disk and network."""
