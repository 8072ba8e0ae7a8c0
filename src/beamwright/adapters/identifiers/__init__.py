"""Who gives out persistent identifiers: a stub, DataCite or a Handle server."""
