"""Policy without a network: accounts, permissions, subject mappings. Never awaits, owns no socket."""
