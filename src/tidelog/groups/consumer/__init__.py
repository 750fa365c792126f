"""Groups whose coordinator assigns the partitions (KIP-848): heartbeats tell members what to read and to give up."""
