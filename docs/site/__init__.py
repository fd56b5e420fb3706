"""The documentation site: pages of the repository, a reference made of docstrings, a support matrix; built by MkDocs.

`python -m docs.site` (`make docs`) builds `build/site`, which is read from disk: no network, no server.
"""
