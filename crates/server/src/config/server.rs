//! How the server is reached.

use domain::web::{Host, Hosts, KnownHost};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// How the server is reached.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The names under which it may be asked, besides loopback names and `listen`.
    #[serde(deserialize_with = "hosts")]
    pub hosts: Vec<KnownHost>,
    /// Where others find it; `None` = at `listen`.
    #[serde(deserialize_with = "url")]
    pub external_url: Option<String>,
}

impl Server {
    /// The names under which a server on `listen` may be asked.
    pub(crate) fn known(&self, listen: std::net::IpAddr) -> Hosts {
        Hosts::new(listen, self.hosts.clone())
    }

    /// Where others find a server that listens on `address`, without a final slash.
    pub(crate) fn url(&self, address: std::net::SocketAddr) -> String {
        match &self.external_url {
            Some(url) => url.clone(),
            // It listens on every address, and which of them others use it cannot know.
            None if address.ip().is_unspecified() => format!("http://localhost:{}", address.port()),
            None => format!("http://{address}"),
        }
    }
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<KnownHost>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let known = texts.iter().map(|text| KnownHost::parse("server.hosts", text));
    known.collect::<Result<_, _>>().map_err(|invalid| D::Error::custom(invalid.problem))
}

/// Scheme, host, port and a path, without query and final slash; `""` = none.
fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split_once('/').map_or(rest, |(host, _)| host));
    let is_host = host.is_some_and(|host| Host::of_authority(host).is_some());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\".contains(&byte));
    if !is_host || !is_plain {
        let problem = format!("{text:?} is not an address such as https://mq.example.com");
        return Err(D::Error::custom(problem));
    }
    Ok(Some(text.trim_end_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Server, String> {
        let defaults = "hosts = []\nexternal_url = \"\"\n".parse::<toml::Table>().unwrap();
        let mut table = defaults;
        table.extend(text.parse::<toml::Table>().unwrap());
        table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn the_address_for_others_never_depends_on_who_asks() {
        for (setting, address, url) in [
            ("", "127.0.0.1:8085", "http://127.0.0.1:8085"),
            ("", "[::1]:8085", "http://[::1]:8085"),
            ("", "0.0.0.0:8085", "http://localhost:8085"),
            ("", "[::]:8085", "http://localhost:8085"),
            ("https://mq.example.com", "0.0.0.0:8085", "https://mq.example.com"),
            ("https://mq.example.com:1/a/", "0.0.0.0:8085", "https://mq.example.com:1/a"),
        ] {
            let server = read(&format!("external_url = \"{setting}\"")).unwrap();
            assert_eq!(server.url(address.parse().unwrap()), url, "{setting} {address}");
        }
    }

    #[test]
    fn what_is_no_address_or_host_is_refused() {
        for setting in
            ["mq.example.com", "ftp://x", "http://", "http://a b", "http://x?y", "https:///x"]
        {
            let refused = read(&format!("external_url = \"{setting}\"")).unwrap_err();
            assert!(refused.contains("such as https://"), "{setting}: {refused}");
        }
        let refused = read("hosts = [\"http://x\"]").unwrap_err();
        assert!(refused.contains("without scheme or port"), "{refused}");
        assert_eq!(read("hosts = [\"x\", \"*\"]").unwrap().hosts.len(), 2);
    }
}
