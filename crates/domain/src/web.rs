//! Decides which requests to answer that a browser may have made.
//!
//! A server on a loopback address trusts everyone who can reach it, and that includes every page
//! open in a browser on the same machine. What a page cannot forge gives it away: the name it has
//! for us (`Host`), where it comes from (`Origin`), and what the browser says about both
//! (`Sec-Fetch-Site`). Programs send only the first.

mod host;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use host::{Host, KnownHost};

/// The names a server answers to, on any port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    listen: IpAddr,
    known: Vec<KnownHost>,
    /// Whether programs may use any name.
    takes_any: bool,
}

impl Hosts {
    /// The names of a server on `listen`: loopback names, its own address, and `known`.
    ///
    /// On an address that is not loopback, and with nothing in `known`, any name is accepted:
    /// behind a load balancer, in a container or in a cluster a server is called by names it cannot
    /// know, and refusing them would break working setups. Pages need a known name even then.
    pub fn new(listen: IpAddr, known: Vec<KnownHost>) -> Self {
        let is_open = known.is_empty() && !listen.to_canonical().is_loopback();
        let takes_any = is_open || known.contains(&KnownHost::Any);
        Self { listen: listen.to_canonical(), known, takes_any }
    }

    /// Whether programs may use any name.
    pub fn takes_any(&self) -> bool {
        self.takes_any
    }

    /// Whether a page at `host` is ours, or belongs to someone we trust.
    fn knows(&self, host: Host<'_>) -> bool {
        let is_own = match host {
            Host::Address(address) => address.is_loopback() || address == self.listen,
            Host::Name(name) => is_loopback_name(name),
        };
        is_own || self.known.iter().any(|known| known.is(host))
    }

    /// Whether we answer to this name. An address was not resolved, so nobody can have made it
    /// point to us: on a listen address that others can reach, any is fine.
    fn answers_to(&self, host: Host<'_>) -> bool {
        let is_address = matches!(host, Host::Address(_)) && !self.listen.is_loopback();
        self.takes_any || is_address || self.knows(host)
    }
}

/// `localhost` and its subdomains never leave the machine (RFC 6761).
fn is_loopback_name(name: &str) -> bool {
    const LOCALHOST: &str = "localhost";
    let start = name.len().saturating_sub(LOCALHOST.len());
    let is_it = name.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(LOCALHOST));
    is_it && (start == 0 || name.get(..start).is_some_and(|before| before.ends_with('.')))
}

/// The parts of a request's head that tell who made it. A value that is not text is given as `?`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// The host of the request target: `:authority`, or that of an absolute URL.
    pub authority: Option<&'a str>,
    /// The `Host` header.
    pub host: Option<&'a str>,
    /// Whether there is a second `Host` header.
    pub has_second_host: bool,
    /// What only browsers send; `None` = neither `Origin` nor `Sec-Fetch-Site` is present.
    pub page: Option<Page<'a>>,
}

/// What a browser says about the page that makes a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Page<'a> {
    /// The HTTP method.
    pub verb: &'a str,
    /// `Origin`: where the page is from.
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`: how the page is related to us.
    pub site: Option<&'a str>,
    /// `Sec-Fetch-Mode`: how the request is made.
    pub mode: Option<&'a str>,
    /// `Sec-Fetch-Dest`: what it is for.
    pub dest: Option<&'a str>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
}

/// Who made a request that we answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A program, someone who typed the address, or a page of ours.
    Own,
    /// A page on another host that is known. It may call, but must not displace another caller.
    Page,
    /// A link or an image on another site's page, which cannot read the answer.
    Visit,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A proxy and we might each use a different one.
    #[error("the request has more than one Host header")]
    TwoHosts,
    /// As above.
    #[error("the request is for {authority:?}, but its Host header says {host:?}")]
    HostsDiffer {
        /// The host of the target.
        authority: String,
        /// The host of the header.
        host: String,
    },
    /// A name that is not ours: a page may have made it point to us.
    #[error(
        "this server is not known as {0:?}; if it is to be reached under that name, add the name to \
         server.hosts (POSTRIDER_SERVER_HOSTS)"
    )]
    Host(String),
    /// A page of another site.
    #[error(
        "pages of {0:?} may not call this server; if they are to, add their host to server.hosts \
         (POSTRIDER_SERVER_HOSTS)"
    )]
    Origin(String),
    /// A page of another site.
    #[error(
        "a page of another site made this request (Sec-Fetch-Site), and only pages of this \
         server's own hosts may"
    )]
    CrossSite,
    /// A page could send this without a preflight request.
    #[error("a request with an Origin needs the content type application/json, not {0:?}")]
    ContentType(String),
}

impl Hosts {
    /// Who made a request, if it should be answered.
    pub fn check(&self, head: &Head<'_>) -> Result<Caller, Refused> {
        if head.has_second_host {
            return Err(Refused::TwoHosts);
        }
        if let (Some(authority), Some(host)) = (head.authority, head.host)
            && !authority.eq_ignore_ascii_case(host)
        {
            let (authority, host) = (shown(authority), shown(host));
            return Err(Refused::HostsDiffer { authority, host });
        }
        // A caller that sends no name at all is not a browser.
        let asked = head.authority.or(head.host);
        if let Some(text) = asked
            && !Host::of_authority(text).is_some_and(|host| self.answers_to(host))
        {
            return Err(Refused::Host(shown(text)));
        }
        head.page.map_or(Ok(Caller::Own), |page| self.check_page(&page, asked))
    }

    fn check_page(&self, page: &Page<'_>, asked: Option<&str>) -> Result<Caller, Refused> {
        let is_cross_site = page.site.is_some_and(|site| site.eq_ignore_ascii_case("cross-site"));
        let Some(origin) = page.origin else { return page.without_origin(is_cross_site) };
        let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let (place, host) = place
            .and_then(|place| Some((place, Host::of_authority(place)?)))
            .ok_or_else(|| Refused::Origin(shown(origin)))?;
        // A page can only come from an address that answered it, and here that is us.
        let is_same = asked.is_some_and(|asked| asked.eq_ignore_ascii_case(place));
        let is_ours = is_same && matches!(host, Host::Address(_));
        if !is_ours && !self.knows(host) {
            return Err(Refused::Origin(shown(origin)));
        }
        if is_cross_site {
            return Err(Refused::CrossSite);
        }
        page.check_content_type()?;
        Ok(if is_same { Caller::Own } else { Caller::Page })
    }
}

impl Page<'_> {
    /// Browsers omit the origin when a page only reads: links, images, its own data.
    fn without_origin(&self, is_cross_site: bool) -> Result<Caller, Refused> {
        let is = |value: Option<&str>, word| value.is_some_and(|value| value == word);
        if !is_cross_site && !is(self.site, "same-site") {
            return Ok(Caller::Own);
        }
        let only_looks = matches!(self.verb, "GET" | "HEAD");
        // Following a link is no different from typing the address.
        let is_link = is(self.mode, "navigate") && is(self.dest, "document");
        if only_looks && (is_link || !is_cross_site) {
            return Ok(Caller::Visit);
        }
        Err(Refused::CrossSite)
    }

    /// Pages can send forms and plain text to other sites without asking, and anything else only
    /// after a preflight request allowed it.
    fn check_content_type(&self) -> Result<(), Refused> {
        let Some(given) = self.content_type else {
            let has_none = matches!(self.verb, "GET" | "HEAD" | "DELETE" | "OPTIONS");
            return if has_none { Ok(()) } else { Err(Refused::ContentType(String::new())) };
        };
        let kind = given.split(';').next().unwrap_or_default().trim();
        let is_grpc = kind.get(..16).is_some_and(|it| it.eq_ignore_ascii_case("application/grpc"));
        if is_grpc || kind.eq_ignore_ascii_case("application/json") {
            return Ok(());
        }
        Err(Refused::ContentType(shown(given)))
    }
}

/// The part of a text that an error shows.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    text.chars().take(CHARS_MAX).collect()
}
