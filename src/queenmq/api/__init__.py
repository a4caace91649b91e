"""Everything that can be asked of Queen, declared once: one frozen struct for each call, in one file for each noun.

`call` has what a declaration consists of. These are derived from it:

    HTTP routes and role checks     broker.calls
    /openapi.json and docs/api.md   broker.openapi, tools.api_docs
    both transports of the SDK      client.transports

One function in `service` answers each call, for the server and for the direct transport alike.
"""
