"""The server on a device: TVM's RPC protocol, one session at a time, each in a process of its own.

It runs where there is only Python's library and TVM, so its modules import each other and nothing
else of odtc. The host imports what both sides have to agree on, nearly all of it from `wire`.
"""
