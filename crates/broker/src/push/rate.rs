//! A fixed limit of requests a second.
