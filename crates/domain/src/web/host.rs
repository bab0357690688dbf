//! A host as written in requests and settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::Invalid;

/// A host named by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// An address; an IPv4 address inside IPv6 counts as IPv4.
    Address(IpAddr),
    /// A name, in its original case, without a final dot.
    Name(&'a str),
}

impl<'a> Host<'a> {
    /// The host of `host:port`; the port is optional. `None` = not a host.
    pub fn of_authority(text: &'a str) -> Option<Self> {
        let (host, port) = match text.rfind(']') {
            Some(end) => text.split_at_checked(end + 1)?,
            None => text.split_at_checked(text.find(':').unwrap_or(text.len()))?,
        };
        let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|it| it.is_ascii_digit());
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        Self::parse(host)
    }

    fn parse(text: &'a str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        (!name.is_empty() && name.bytes().all(is_fit)).then_some(Self::Name(name))
    }
}

/// A host from the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownHost {
    /// `*`: programs may use any name.
    Any,
    /// `*.example.com`: every name with this suffix, including the dot.
    Below(String),
    /// A name.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl KnownHost {
    /// Parses a host from the settings: without a port, since every port is fine.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let below = text.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        match (below, Host::parse(below.map_or(text, |rest| rest.trim_start_matches('.')))) {
            (Some(_), Some(Host::Name(name))) => Ok(Self::Below(format!(".{name}"))),
            (None, Some(Host::Name(name))) => Ok(Self::Name(name.to_owned())),
            (None, Some(Host::Address(address))) => Ok(Self::Address(address)),
            _ => Err(Invalid::new(
                field,
                format!(
                    "{text:?} is not a host; give names or addresses without scheme or port, such \
                     as \"mq.example.com\", \"*.example.com\" or \"10.1.2.3\""
                ),
            )),
        }
    }

    /// Whether it matches this host. `*` matches none: pages need an explicit name.
    pub(super) fn is(&self, host: Host<'_>) -> bool {
        match (self, host) {
            (Self::Name(known), Host::Name(name)) => known.eq_ignore_ascii_case(name),
            (Self::Below(end), Host::Name(name)) => {
                let start = name.len().checked_sub(end.len()).filter(|start| *start > 0);
                let found = start.and_then(|start| name.get(start..));
                found.is_some_and(|found| found.eq_ignore_ascii_case(end))
            }
            (Self::Address(known), Host::Address(address)) => *known == address,
            _ => false,
        }
    }
}
