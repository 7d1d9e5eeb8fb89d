"""What imports of foreign stores have in common, whatever the store: what is found wrong, what ends one, and
that nobody else writes to the store meanwhile."""
