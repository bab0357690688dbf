//! Getting to Google's services: connections, and tokens that say who asks.

mod ask;
mod connect;
mod credentials;
mod metadata;
mod service_account;
#[cfg(test)]
mod tests;

pub use connect::{Connect, channel};
pub use credentials::{AccessError, Credentials};
