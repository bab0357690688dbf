//! The request that carries messages: method, headers, body.
