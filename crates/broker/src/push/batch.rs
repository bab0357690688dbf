//! How many messages go in one request, and how many of them the answer acks.
