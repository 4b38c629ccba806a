# tests/regress
