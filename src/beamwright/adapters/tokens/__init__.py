"""Verifiers of bearer tokens: signed tokens, introspection, the built-in issuer and their registry."""
