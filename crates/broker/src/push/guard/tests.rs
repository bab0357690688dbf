use super::*;

fn vet(guard: &Guard, address: &str) -> Result<(), String> {
    guard.vet("example.com", &[SocketAddr::new(address.parse().unwrap(), 80)])
}

fn allowing(networks: &[&str]) -> Guard {
    let allow = networks.iter().map(|net| net.parse().unwrap()).collect();
    Guard { allow, ..Guard::default() }
}

const PRIVATE: [&str; 51] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "100::1",
    "5f00::1",
    "fc00::1",
    "fdff::1",
    "fec0::1",
    "ff02::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "3fff:fff::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:192.168.1.1",
    "::10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::10.0.0.1",
    "64:ff9b:1:a00:0:100:808:808",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    // Teredo: a private server, then a private client behind a public one.
    "2001:0:a00:1:0:0:f7f7:f7f7",
    "2001:0:808:808:0:0:f5ff:fffe",
];

const PUBLIC: [&str; 24] = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:4860:4860::8888",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "::8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
    "2001:0:808:808:0:0:f7f7:f7f7",
    "2a00:1450::1",
];

const CREDENTIALS: [&str; 17] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe:0:0:f7f7:f7f7",
    "2001:0:808:808:0:0:5601:5601",
];

#[test]
fn what_is_not_public_is_refused_with_the_address_and_the_setting() {
    for address in PRIVATE {
        let problem = vet(&Guard::default(), address).expect_err(address);
        let shown = address.parse::<IpAddr>().unwrap().to_string();
        assert!(problem.contains(&shown), "{problem}");
        assert!(problem.contains("push.allow") && problem.contains("example.com"), "{problem}");
    }
}

#[test]
fn what_is_public_may_be_connected_to() {
    for address in PUBLIC {
        assert_eq!(vet(&Guard::default(), address), Ok(()), "{address}");
    }
}

#[test]
fn with_private_networks_all_but_credentials_may_be_connected_to() {
    let guard = Guard { private_networks: true, ..Guard::default() };
    for address in PRIVATE.iter().chain(&PUBLIC) {
        assert_eq!(vet(&guard, address), Ok(()), "{address}");
    }
}

#[test]
fn credentials_of_clouds_are_refused_whatever_is_allowed() {
    let everything = ["0.0.0.0/0", "::/0"];
    let guard = Guard { private_networks: true, ..allowing(&everything) };
    for address in CREDENTIALS {
        let problem = vet(&guard, address).expect_err(address);
        assert!(problem.contains("never"), "{problem}");
    }
}

const LINK_LOCAL: [&str; 10] = [
    "169.254.0.1",
    "169.254.255.255",
    "fe80::1",
    "febf::1",
    "::ffff:169.254.1.2",
    "::169.254.1.2",
    "64:ff9b::169.254.1.2",
    "64:ff9b:1::169.254.1.2",
    "2002:a9fe:102::1",
    "2001:0:808:808:0:0:5601:fefd",
];

#[test]
fn link_local_addresses_are_refused_whatever_is_allowed_and_however_they_are_written() {
    let guard = Guard { private_networks: true, ..allowing(&["0.0.0.0/0", "::/0"]) };
    for address in LINK_LOCAL {
        let problem = vet(&guard, address).expect_err(address);
        assert!(problem.contains("link-local") && problem.contains("never"), "{problem}");
    }
}

/// What a server that listens on `own` says about pushing to `to`.
fn vet_own(own: &str, to: &str) -> Result<(), String> {
    let own = Some(own.parse().unwrap());
    let guard = Guard { private_networks: true, own, ..allowing(&["0.0.0.0/0", "::/0"]) };
    guard.vet("example.com", &[to.parse().unwrap()])
}

#[test]
fn the_servers_own_address_is_refused_however_it_is_written() {
    for (own, to) in [
        ("127.0.0.1:8085", "127.0.0.1:8085"),
        ("127.0.0.1:8085", "[::ffff:127.0.0.1]:8085"),
        ("127.0.0.1:8085", "0.0.0.0:8085"),
        ("127.0.0.1:8085", "[::]:8085"),
        ("[::1]:8085", "[::1]:8085"),
        ("10.1.2.3:8085", "10.1.2.3:8085"),
        ("10.1.2.3:8085", "[64:ff9b::10.1.2.3]:8085"),
        ("0.0.0.0:8085", "127.0.0.1:8085"),
        ("0.0.0.0:8085", "127.9.9.9:8085"),
        ("0.0.0.0:8085", "0.0.0.0:8085"),
        ("[::]:8085", "127.0.0.1:8085"),
        ("[::]:8085", "[::1]:8085"),
    ] {
        let problem = vet_own(own, to).expect_err(to);
        assert!(problem.contains("this server itself"), "{own} {to}: {problem}");
    }
    for (own, to) in [
        ("127.0.0.1:8085", "127.0.0.1:8086"),
        ("127.0.0.1:8085", "127.0.0.2:8085"),
        ("10.1.2.3:8085", "10.1.2.4:8085"),
        ("0.0.0.0:8085", "127.0.0.1:80"),
        ("0.0.0.0:8085", "8.8.8.8:8085"),
    ] {
        assert_eq!(vet_own(own, to), Ok(()), "{own} {to}");
    }
}

#[test]
fn a_long_name_does_not_hide_what_to_do() {
    let name = format!("{}.example.com", "x".repeat(2_000));
    let problem = Guard::default().vet(&name, &["10.0.0.1:80".parse().unwrap()]).unwrap_err();
    assert!(problem.len() < 160 && problem.ends_with("add it to push.allow"), "{problem}");
}

#[test]
fn what_is_listed_may_be_connected_to_in_every_spelling_and_its_neighbour_not() {
    let guard = allowing(&["10.1.0.0/16", "127.0.0.1/32", "fd12::/16"]);
    for address in ["10.1.2.3", "127.0.0.1", "fd12::1", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"] {
        assert_eq!(vet(&guard, address), Ok(()), "{address}");
    }
    for address in ["10.2.0.1", "127.0.0.2", "fd13::1", "::ffff:10.2.0.1", "::1"] {
        assert!(vet(&guard, address).is_err(), "{address}");
    }
}

#[test]
fn one_private_address_among_public_ones_refuses_all() {
    let addresses = ["8.8.8.8:80", "10.0.0.1:80", "1.1.1.1:80"].map(|text| text.parse().unwrap());
    let problem = Guard::default().vet("example.com", &addresses).unwrap_err();
    assert!(problem.contains("10.0.0.1"), "{problem}");
}

#[test]
fn an_address_given_itself_is_named_once() {
    let address = "127.0.0.1:80".parse().unwrap();
    let problem = Guard::default().vet("127.0.0.1", &[address]).unwrap_err();
    assert_eq!(problem.matches("127.0.0.1").count(), 1, "{problem}");
}
