"""A virtual etcd, and the store of a client over it."""
