# tests/privs
