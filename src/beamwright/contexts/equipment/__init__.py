"""What exists, what it can do, where it stands, how it is put together and how it is cited."""
