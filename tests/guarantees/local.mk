# tests/guarantees
