//! How many requests an endpoint is sent at a time.
