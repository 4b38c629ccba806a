# tests/proto
