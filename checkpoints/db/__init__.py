"""Django's PostgreSQL backend, where every transaction knows who it works for.

`session` says who that is, `base` tells the database, `policies` are the rules by which
the database then lets rows be seen, `roles` who may do what to which table.
"""
