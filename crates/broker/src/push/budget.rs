//! Fair shares of the requests that may be in flight, counted by the time they are held.
