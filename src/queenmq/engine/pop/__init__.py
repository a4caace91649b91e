"""Pop: requests of consumers become leases, and leases become messages."""
