//! A pause for an endpoint that fails, and one probe at its end.
