use super::*;

const LOOPBACK: &str = "127.0.0.1";

fn hosts(listen: &str, known: &[&str]) -> Hosts {
    let known = known.iter().map(|text| KnownHost::parse("server.hosts", text).unwrap());
    Hosts::new(listen.parse().unwrap(), known.collect())
}

fn asked(hosts: &Hosts, host: &str) -> Result<Caller, Refused> {
    hosts.check(&Head { host: Some(host), ..Head::default() })
}

/// A request from a page to `localhost:8085`.
fn paged(page: Page<'_>) -> Result<Caller, Refused> {
    let head = Head { host: Some("localhost:8085"), page: Some(page), ..Head::default() };
    hosts(LOOPBACK, &["mq.example.com"]).check(&head)
}

#[test]
fn a_server_on_loopback_answers_to_its_own_names_alone() {
    let hosts = hosts(LOOPBACK, &["mq.example.com", "*.test.example", "10.1.2.3"]);
    for host in [
        "localhost",
        "LocalHost:8085",
        "localhost.:1",
        "app.localhost:9",
        "127.0.0.1:8085",
        "127.9.9.9",
        "[::1]:8085",
        "[::1]",
        "[::ffff:127.0.0.1]:1",
        "mq.example.com:443",
        "MQ.Example.Com.",
        "a.test.example",
        "10.1.2.3:8085",
    ] {
        assert_eq!(asked(&hosts, host), Ok(Caller::Own), "{host}");
    }
    for host in [
        "evil.example:8085",
        "notlocalhost",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example.mq.example.com",
        "test.example",
        ".test.example",
        "10.1.2.4",
        "0.0.0.0:8085",
        "127.1",
        "2130706433",
        "[::2]:8085",
        "::1",
        "",
        ":8085",
        "user@localhost",
        "localhost:8085:1",
        "localhost:123456",
        "localhost:x",
        "localhost/x",
        "[::1",
        "[::1]x",
        "?",
    ] {
        assert_eq!(asked(&hosts, host), Err(Refused::Host(host.to_owned())), "{host}");
    }
}

#[test]
fn a_server_that_others_reach_lets_programs_call_it_what_they_like_until_it_is_told_its_names() {
    let open = hosts("0.0.0.0", &[]);
    assert!(open.takes_any());
    for host in ["postrider:8085", "mq.example.com", "10.0.0.7:8085", "localhost"] {
        assert_eq!(asked(&open, host), Ok(Caller::Own), "{host}");
    }
    let page = |host, origin| {
        let page = Page { verb: "GET", origin: Some(origin), ..Page::default() };
        let head = Head { host: Some(host), page: Some(page), ..Head::default() };
        open.check(&head)
    };
    assert_eq!(page("10.0.0.7:8085", "http://10.0.0.7:8085"), Ok(Caller::Own));
    // This is what it looks like when someone's name points to us.
    let refused = page("evil.example:8085", "http://evil.example:8085");
    assert!(matches!(refused, Err(Refused::Origin(_))), "{refused:?}");
    let refused = page("10.0.0.7:8085", "http://10.0.0.8:8085");
    assert!(matches!(refused, Err(Refused::Origin(_))), "{refused:?}");

    let told = hosts("0.0.0.0", &["mq.example.com"]);
    assert!(!told.takes_any());
    // Load balancer probes use the address.
    for host in ["mq.example.com", "10.0.0.7:8085", "localhost"] {
        assert_eq!(asked(&told, host), Ok(Caller::Own), "{host}");
    }
    assert!(asked(&told, "postrider:8085").is_err());
    assert!(hosts(LOOPBACK, &["*"]).takes_any());
    assert!(!hosts("::1", &[]).takes_any());
    assert!(!hosts("::ffff:127.0.0.1", &[]).takes_any());
}

#[test]
fn a_request_names_one_host() {
    let hosts = hosts(LOOPBACK, &[]);
    let check = |authority, host, has_second_host| {
        hosts.check(&Head { authority, host, has_second_host, page: None })
    };
    assert_eq!(check(None, None, false), Ok(Caller::Own));
    assert_eq!(check(Some("localhost:1"), None, false), Ok(Caller::Own));
    assert_eq!(check(Some("localhost:1"), Some("LOCALHOST:1"), false), Ok(Caller::Own));
    assert_eq!(check(None, Some("localhost"), true), Err(Refused::TwoHosts));
    for (authority, host) in
        [("localhost", "evil.example"), ("evil.example", "localhost"), ("localhost", "localhost:1")]
    {
        let refused = check(Some(authority), Some(host), false);
        assert!(matches!(refused, Err(Refused::HostsDiffer { .. })), "{refused:?}");
    }
    assert!(matches!(check(Some("evil.example"), None, false), Err(Refused::Host(_))));
}

#[test]
fn pages_of_others_are_refused() {
    for origin in [
        "https://evil.example",
        "http://evil.example:8085",
        "http://localhost.evil.example",
        "http://10.0.0.1:8085",
        "null",
        "file://",
        "chrome-extension://abc",
        "localhost:8085",
        "http://localhost:8085/",
        "?",
        "",
    ] {
        let page = Page { verb: "GET", origin: Some(origin), ..Page::default() };
        assert_eq!(paged(page), Err(Refused::Origin(origin.to_owned())), "{origin}");
    }
    for (origin, caller) in [
        ("http://localhost:8085", Caller::Own),
        ("https://LOCALHOST:8085", Caller::Own),
        ("http://localhost:3000", Caller::Page),
        ("http://127.0.0.1:8085", Caller::Page),
        ("https://mq.example.com", Caller::Page),
    ] {
        let page = Page { verb: "GET", origin: Some(origin), ..Page::default() };
        assert_eq!(paged(page), Ok(caller), "{origin}");
    }
}

#[test]
fn what_comes_from_another_site_is_refused_but_for_links() {
    let page = |verb, site, mode, dest| Page {
        verb,
        site: Some(site),
        mode: Some(mode),
        dest: Some(dest),
        ..Page::default()
    };
    for (page, expected) in [
        (page("GET", "cross-site", "no-cors", "image"), Err(Refused::CrossSite)),
        (page("GET", "Cross-Site", "no-cors", "script"), Err(Refused::CrossSite)),
        (page("GET", "cross-site", "navigate", "iframe"), Err(Refused::CrossSite)),
        (page("POST", "cross-site", "navigate", "document"), Err(Refused::CrossSite)),
        (page("POST", "same-site", "no-cors", "empty"), Err(Refused::CrossSite)),
        (page("GET", "cross-site", "navigate", "document"), Ok(Caller::Visit)),
        (page("GET", "same-site", "no-cors", "image"), Ok(Caller::Visit)),
        (page("GET", "same-origin", "cors", "empty"), Ok(Caller::Own)),
        (page("GET", "none", "navigate", "document"), Ok(Caller::Own)),
    ] {
        assert_eq!(paged(page), expected, "{page:?}");
        if page.site != Some("none") {
            let plain = Page { mode: None, dest: None, ..page };
            assert_ne!(paged(plain), Ok(Caller::Page), "{plain:?}");
        }
    }
    let alone = Page { verb: "GET", site: Some("cross-site"), ..Page::default() };
    assert_eq!(paged(alone), Err(Refused::CrossSite));
    let known = Page { origin: Some("http://localhost:3000"), ..alone };
    assert_eq!(paged(known), Err(Refused::CrossSite));
}

#[test]
fn a_page_sends_json() {
    let page = |verb, content_type| Page {
        verb,
        origin: Some("http://localhost:3000"),
        content_type,
        ..Page::default()
    };
    for (verb, content_type, is_fine) in [
        ("POST", Some("application/json"), true),
        ("POST", Some("Application/JSON; charset=utf-8"), true),
        ("POST", Some("application/grpc+proto"), true),
        ("POST", Some("text/plain"), false),
        ("POST", Some("text/plain; application/json"), false),
        ("POST", Some("application/x-www-form-urlencoded"), false),
        ("POST", Some("multipart/form-data"), false),
        ("POST", Some("?"), false),
        ("POST", None, false),
        ("PUT", None, false),
        ("GET", None, true),
        ("DELETE", None, true),
        ("GET", Some("text/plain"), false),
    ] {
        let checked = paged(page(verb, content_type));
        assert_eq!(checked.is_ok(), is_fine, "{verb} {content_type:?}: {checked:?}");
    }
}

#[test]
fn refusals_say_what_to_set_and_show_little() {
    let refused = asked(&hosts(LOOPBACK, &[]), &"x".repeat(1000)).unwrap_err().to_string();
    assert!(refused.contains("server.hosts"), "{refused}");
    assert!(refused.len() < 400, "{refused}");
}

#[test]
fn settings_name_hosts_without_scheme_and_port() {
    for (text, known) in [
        ("*", KnownHost::Any),
        ("mq.example.com", KnownHost::Name("mq.example.com".to_owned())),
        ("mq.example.com.", KnownHost::Name("mq.example.com".to_owned())),
        ("*.example.com", KnownHost::Below(".example.com".to_owned())),
        ("::1", KnownHost::Address("::1".parse().unwrap())),
        ("[::1]", KnownHost::Address("::1".parse().unwrap())),
        ("10.1.2.3", KnownHost::Address("10.1.2.3".parse().unwrap())),
    ] {
        assert_eq!(KnownHost::parse("server.hosts", text), Ok(known), "{text}");
    }
    for text in ["", "http://x", "x:80", "x/y", "*x", "a.*", "*.", "*.*.x", "x y"] {
        let refused = KnownHost::parse("server.hosts", text).unwrap_err();
        assert_eq!(refused.field, "server.hosts", "{text}");
    }
}
