"""The SDK for programs without asyncio. The files beside this one are generated: `make sync-client`."""
