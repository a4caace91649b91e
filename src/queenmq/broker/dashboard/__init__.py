"""The dashboard: pages for people at `/`, files of the browser below `/dashboard/`, built on the public API.

`static/` is sent as it is: there is no build step. `files` has what is sent and how, `routes` has the addresses.
"""
