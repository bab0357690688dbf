//! Which addresses may be connected to.
//!
//! Otherwise anyone who may set an endpoint could make this server call others that only it can
//! reach. Names are useless for that decision: we check every address of a name at connect time,
//! and connect only to checked addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What the operator allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// Whether addresses that are not public may be connected to.
    pub(crate) private_networks: bool,
    /// What may be connected to anyway.
    pub(crate) allow: Vec<IpNet>,
    /// Where this server listens; it never connects to itself.
    pub(crate) own: Option<SocketAddr>,
}

/// Link-local addresses, where clouds put services for a single machine. No setting opens these.
const LINK_LOCAL: [IpNet; 2] = [IpNet::V4(v4(169, 254, 0, 0, 16)), IpNet::V6(v6(0xfe80, 0, 0, 10))];

/// Other places where clouds hand out their credentials. No setting opens these.
const METADATA: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

const NOT_PUBLIC_V4: [(Ipv4Net, &str); 15] = [
    (v4(0, 0, 0, 0, 8), "an address of \"this network\""),
    (v4(10, 0, 0, 0, 8), "a private address"),
    (v4(100, 64, 0, 0, 10), "a carrier's inner address"),
    (v4(127, 0, 0, 0, 8), "a loopback address"),
    (v4(172, 16, 0, 0, 12), "a private address"),
    (v4(192, 0, 0, 0, 24), "an address for protocols"),
    (v4(192, 0, 2, 0, 24), "an address for documentation"),
    (v4(192, 88, 99, 0, 24), "an address of a 6to4 relay"),
    (v4(192, 168, 0, 0, 16), "a private address"),
    (v4(198, 18, 0, 0, 15), "an address for measurements"),
    (v4(198, 51, 100, 0, 24), "an address for documentation"),
    (v4(203, 0, 113, 0, 24), "an address for documentation"),
    (v4(224, 0, 0, 0, 4), "a multicast address"),
    (v4(255, 255, 255, 255, 32), "the broadcast address"),
    (v4(240, 0, 0, 0, 4), "a reserved address"),
];

const NOT_PUBLIC_V6: [(Ipv6Net, &str); 8] = [
    (v6(0, 0, 0, 127), "a loopback or unspecified address"),
    (v6(0xfc00, 0, 0, 7), "a private address"),
    (v6(0xff00, 0, 0, 8), "a multicast address"),
    (v6(0x2001, 0x2, 0, 48), "an address for measurements"),
    (v6(0x2001, 0x10, 0, 28), "an address for protocols"),
    (v6(0x2001, 0x20, 0, 28), "an address for protocols"),
    (v6(0x2001, 0xdb8, 0, 32), "an address for documentation"),
    (v6(0x3fff, 0, 0, 20), "an address for documentation"),
];

/// All of IPv6 that is allocated for public use is in here.
const PUBLIC_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
const COMPATIBLE: Ipv6Net = v6(0, 0, 0, 96);
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);
const NAT64_LOCAL: Ipv6Net = v6(0x64, 0xff9b, 1, 48);
const SIX_TO_FOUR: Ipv6Net = v6(0x2002, 0, 0, 16);
const TEREDO: Ipv6Net = v6(0x2001, 0, 0, 32);

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(a: u16, b: u16, c: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), length)
}

impl Guard {
    /// Checks all addresses of `host`. If one is refused, all are: a name with a public and a
    /// private address is a trap, not a choice.
    pub(crate) fn vet(&self, host: &str, addresses: &[SocketAddr]) -> Result<(), String> {
        addresses.iter().try_for_each(|address| {
            self.vet_own(host, *address)?;
            self.vet_address(host, address.ip())
        })
    }

    /// Someone who may set an endpoint must not make this server call itself, with privileges that
    /// only callers on this machine have.
    fn vet_own(&self, host: &str, address: SocketAddr) -> Result<(), String> {
        let Some(own) = self.own.filter(|own| own.port() == address.port()) else { return Ok(()) };
        let inner = inner_addresses(address.ip()).into_iter().flatten().map(IpAddr::V4);
        if !std::iter::once(address.ip()).chain(inner).any(|ip| is_reached_at(own.ip(), ip)) {
            return Ok(());
        }
        let whose = whose(host, address.ip());
        Err(format!(
            "{address}{whose} is this server itself, which never pushes to itself: use another \
             endpoint"
        ))
    }

    fn vet_address(&self, host: &str, address: IpAddr) -> Result<(), String> {
        let inner = inner_addresses(address);
        let inner = || inner.iter().flatten().map(|inner| IpAddr::V4(*inner));
        let whose = whose(host, address);
        let all = || std::iter::once(address).chain(inner());
        if all().any(|address| METADATA.contains(&address)) {
            return Err(format!(
                "{address}{whose} is where a cloud keeps its credentials: the server never \
                 connects to it, whatever push.allow says"
            ));
        }
        if all().any(|address| LINK_LOCAL.iter().any(|net| net.contains(&address))) {
            return Err(format!(
                "{address}{whose} is a link-local address, where clouds keep credentials: the \
                 server never connects to it, whatever push.allow says"
            ));
        }
        if self.private_networks || self.allows(address) {
            return Ok(());
        }
        let problem = match inner().next() {
            None => not_public(address),
            Some(_) => inner().filter(|inner| !self.allows(*inner)).find_map(not_public),
        };
        match problem {
            None => Ok(()),
            Some(problem) => {
                Err(format!("{address}{whose} is {problem}: to push there, add it to push.allow"))
            }
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|net| net.contains(&address))
    }
}

/// How many characters of a host are shown: the text after it says what to do.
const HOST_CHARS_SHOWN: usize = 64;

/// Names the host, unless the address itself was given.
fn whose(host: &str, address: IpAddr) -> String {
    if host.parse() == Ok(address) {
        return String::new();
    }
    let shown: String = host.chars().take(HOST_CHARS_SHOWN).collect();
    let more = if shown.len() < host.len() { "..." } else { "" };
    format!(", an address of {shown}{more},")
}

/// Whether a server that listens on `own` is reached at `address`, on the same port.
fn is_reached_at(own: IpAddr, address: IpAddr) -> bool {
    let (own, address) = (own.to_canonical(), address.to_canonical());
    match (own.is_unspecified(), address.is_unspecified()) {
        // "Any address" as a target is this machine's loopback.
        (_, true) => own.is_unspecified() || own.is_loopback(),
        (true, false) => is_of_this_machine(address),
        (false, false) => own == address,
    }
}

/// Whether the address belongs to this machine. The system knows: one can only bind to those.
fn is_of_this_machine(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            let found = NOT_PUBLIC_V4.iter().find(|(net, _)| net.contains(&address));
            found.map(|(_, problem)| *problem)
        }
        IpAddr::V6(address) => {
            let found = NOT_PUBLIC_V6.iter().find(|(net, _)| net.contains(&address));
            let elsewhere = (!PUBLIC_V6.contains(&address)).then_some("not a public address");
            found.map(|(_, problem)| *problem).or(elsewhere)
        }
    }
}

/// The IPv4 addresses where a packet to this IPv6 address may end up. Neither `::` nor `::1` has
/// one.
fn inner_addresses(address: IpAddr) -> [Option<Ipv4Addr>; 2] {
    let IpAddr::V6(address) = address else { return [None, None] };
    let b = address.octets();
    let last = Ipv4Addr::new(b[12], b[13], b[14], b[15]);
    if address.is_unspecified() || address.is_loopback() {
        [None, None]
    } else if [MAPPED, COMPATIBLE, NAT64].iter().any(|net| net.contains(&address)) {
        [Some(last), None]
    } else if NAT64_LOCAL.contains(&address) {
        // With a 48-bit prefix the address is split around the octet that is always zero.
        [Some(Ipv4Addr::new(b[6], b[7], b[9], b[10])), Some(last)]
    } else if SIX_TO_FOUR.contains(&address) {
        [Some(Ipv4Addr::new(b[2], b[3], b[4], b[5])), None]
    } else if TEREDO.contains(&address) {
        [Some(Ipv4Addr::new(b[4], b[5], b[6], b[7])), Some(Ipv4Addr::from(!u32::from(last)))]
    } else {
        [None, None]
    }
}

#[cfg(test)]
mod tests;
