//! Sending one request and reading its answer, over connections that are kept.
