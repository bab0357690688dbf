//! Endpoints and addresses, beside a second table of what is not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of the registries of special addresses that nobody shall be pushed to, written down
/// apart from the guard's own table: where the two disagree, one of them is wrong.
const SPECIAL_V4: [(u32, u32); 17] = [
    (0x0000_0000, 8),
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc000_0000, 24),
    (0xc000_0200, 24),
    (0xc058_6300, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
    (0xc633_6400, 24),
    (0xcb00_7100, 24),
    (0xe000_0000, 4),
    (0xf000_0000, 4),
    (0xffff_ffff, 32),
    // Where Azure hands out credentials.
    (0xa83f_8110, 32),
];

const SPECIAL_V6: [(u128, u32); 5] = [
    (0x2001_0002_0000 << 80, 48),
    (0x2001_0010 << 96, 28),
    (0x2001_0020 << 96, 28),
    (0x2001_0db8 << 96, 32),
    (0x3fff << 112, 20),
];

fn is_special_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    SPECIAL_V4.iter().any(|&(net, length)| (bits ^ net).checked_shr(32 - length) == Some(0))
}

/// Whether a packet to the address may end anywhere that is not public.
fn is_special_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let low = Ipv4Addr::from_bits(u32::try_from(bits & 0xffff_ffff).unwrap_or_default());
    let at = |shift: u32| {
        Ipv4Addr::from_bits(u32::try_from((bits >> shift) & 0xffff_ffff).unwrap_or_default())
    };
    let is_in = |net: u128, length: u32| (bits ^ net) >> (128 - length) == 0;
    // Loopback and unspecified, before what is mapped.
    if bits <= 1 {
        return true;
    }
    if is_in(0xffff << 32, 96) || is_in(0, 96) || is_in(0x0064_ff9b << 96, 96) {
        return is_special_v4(low);
    }
    if is_in(0x0064_ff9b_0001 << 80, 48) {
        // A network of 48 bits has it around the octet that is always zero, one of 96 at the end.
        let [.., b6, b7, _, b9, b10, _, _, _, _, _] = address.octets();
        return is_special_v4(Ipv4Addr::new(b6, b7, b9, b10)) || is_special_v4(low);
    }
    if is_in(0x2002 << 112, 16) {
        return is_special_v4(at(80));
    }
    if is_in(0x2001_0000 << 96, 32) {
        let client = Ipv4Addr::from_bits(!low.to_bits());
        return is_special_v4(client) || is_special_v4(at(64));
    }
    let is_global = is_in(0x2 << 124, 3);
    !is_global || SPECIAL_V6.iter().any(|&(net, length)| is_in(net, length))
}

fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => is_special_v6(address),
    }
}

/// Any text as an endpoint; its host, and the bytes themselves, as addresses.
pub(super) fn address(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let endpoint = broker::fuzzing::endpoint(&text);
    let host = endpoint.as_ref().ok().and_then(|endpoint| endpoint.host().parse().ok());
    let mut verdicts = Vec::new();
    let v4 = input.first_chunk::<4>().map(|bytes| IpAddr::V4((*bytes).into()));
    let v6 = input.first_chunk::<16>().map(|bytes| IpAddr::V6((*bytes).into()));
    for address in [host, v4, v6].into_iter().flatten() {
        let is_refused = !broker::fuzzing::connects_to(address);
        assert_eq!(is_refused, is_special(address), "{address} is refused, or is special");
        verdicts.push(is_refused);
    }
    format!("{:?} {verdicts:?}", endpoint.map(|endpoint| endpoint.is_secure()))
}
