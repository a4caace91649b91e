"""Ack: what consumers say of their messages, alone or together with pushes."""
