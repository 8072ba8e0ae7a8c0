"""Secret stores: the environment, files, HashiCorp Vault, and one in memory for tests; and what signs with them."""
