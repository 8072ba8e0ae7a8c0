"""What may be done, from a kind of operation to steps and plans bound to assets."""
