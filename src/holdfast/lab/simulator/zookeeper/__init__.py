"""A virtual ZooKeeper, and the store of a client over it."""
