"""A facility described in a file: read, compared with what the service has, carried out, and written again."""
