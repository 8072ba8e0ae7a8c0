"""What the service is made of: its dependencies, their licences, and a bill of materials, from the lock file."""
