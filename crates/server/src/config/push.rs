//! How messages are pushed.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use broker::{PushOptions, RetryDefault, Success};
use domain::limits::{PUSH_TIMEOUT_MAX, PUSH_TIMEOUT_MIN};
use domain::push::{Accounts, Pattern};
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::{Checked, at_least, at_most, bytes_at_least, positive, units};

/// How messages are pushed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// Tasks that drive the connections; 0 = twice as many as there are processors.
    pub workers: usize,
    /// Seconds an endpoint has for its answer where its subscription does not say.
    pub timeout_seconds: u32,
    /// Requests under way, all together.
    pub in_flight_max: usize,
    /// Which answers ack.
    #[serde(deserialize_with = "success")]
    pub success: Success,
    /// What a push subscription without a policy waits between attempts.
    #[serde(deserialize_with = "retry_default")]
    pub retry_default: RetryDefault,
    /// Bytes of the log of attempts.
    #[serde(deserialize_with = "units::bytes")]
    pub attempt_log_bytes_max: u64,
    /// Whether addresses in private networks may be reached.
    pub private_networks: PrivateNetworks,
    /// What may be reached in any case.
    #[serde(deserialize_with = "networks")]
    pub allow: Vec<IpNet>,
    /// Whose tokens pushes may carry; none = anyone's on a loopback address, else nobody's.
    #[serde(deserialize_with = "accounts")]
    pub oidc_accounts: Vec<Pattern>,
    /// Further roots to trust; empty = none.
    pub ca_file: PathBuf,
    /// How long a connection may take to be made.
    #[serde(deserialize_with = "units::duration")]
    pub connect_timeout: Duration,
    /// Connections being made at a time.
    pub connects_max: usize,
    /// Connections being made at a time to one host.
    pub connects_per_host_max: usize,
}

/// Whether addresses in private networks may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrivateNetworks {
    /// While only this machine can reach the server.
    Auto,
    /// Yes.
    Allow,
    /// No.
    Refuse,
}

impl Push {
    pub(super) fn check(&self) -> Checked {
        let timeout = Duration::from_secs(self.timeout_seconds.into());
        at_least("push.timeout_seconds", timeout, PUSH_TIMEOUT_MIN)?;
        at_most("push.timeout_seconds", timeout, PUSH_TIMEOUT_MAX)?;
        positive("push.in_flight_max", self.in_flight_max as u64)?;
        bytes_at_least("push.attempt_log_bytes_max", self.attempt_log_bytes_max, super::MIB)?;
        at_least("push.connect_timeout", self.connect_timeout, Duration::from_millis(50))?;
        at_most("push.connect_timeout", self.connect_timeout, PUSH_TIMEOUT_MAX)?;
        positive("push.connects_max", self.connects_max as u64)?;
        positive("push.connects_per_host_max", self.connects_per_host_max as u64)
    }

    /// The same for the broker of a server on `listen`, which keeps what it must in `data_dir`.
    pub(crate) fn options(&self, listen: SocketAddr, data_dir: Option<&Path>) -> PushOptions {
        let plain = PushOptions::default();
        PushOptions {
            workers: if self.workers == 0 { plain.workers } else { self.workers },
            timeout: Duration::from_secs(self.timeout_seconds.into()),
            in_flight_max: self.in_flight_max,
            success: self.success,
            retry_default: self.retry_default,
            attempt_log_bytes_max: self.attempt_log_bytes_max,
            private_networks: match self.private_networks {
                PrivateNetworks::Auto => listen.ip().is_loopback(),
                PrivateNetworks::Allow => true,
                PrivateNetworks::Refuse => false,
            },
            allow: self.allow.clone(),
            oidc_accounts: match self.oidc_accounts.is_empty() && listen.ip().is_loopback() {
                true => Accounts::Any,
                false => Accounts::Listed(self.oidc_accounts.clone()),
            },
            own: Some(listen),
            ca_file: Some(self.ca_file.clone()).filter(|file| !file.as_os_str().is_empty()),
            connect_timeout: self.connect_timeout,
            connects_max: self.connects_max,
            connects_per_host_max: self.connects_per_host_max,
            data_dir: data_dir.map(Path::to_owned),
        }
    }
}

fn success<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Success, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "2xx" => Ok(Success::TwoHundreds),
        "google" => Ok(Success::Google),
        other => Err(D::Error::custom(format!("{other:?} is not \"2xx\" or \"google\""))),
    }
}

fn retry_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RetryDefault, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "google" => Ok(RetryDefault::Google),
        "source" => Ok(RetryDefault::Source),
        other => Err(D::Error::custom(format!("{other:?} is not \"google\" or \"source\""))),
    }
}

/// Networks such as `10.0.0.0/8`, and single addresses.
fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| network(text).map_err(D::Error::custom)).collect()
}

/// Accounts such as `pusher@shop.example.com`, and patterns with `*`.
fn accounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pattern>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: &String| Pattern::parse(text).map_err(|bad| D::Error::custom(bad.problem));
    texts.iter().map(parse).collect()
}

fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    network.ok_or_else(|| format!("{text:?} is not an address or a network such as \"10.0.0.0/8\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Push, String> {
        let built_in: toml::Table = super::super::DEFAULTS.parse().unwrap();
        let mut table = built_in["push"].as_table().unwrap().clone();
        table.extend(lines.parse::<toml::Table>().unwrap());
        Push::deserialize(table).map_err(|error| error.to_string())
    }

    fn options(lines: &str, listen: &str) -> PushOptions {
        read(lines).unwrap().options(listen.parse().unwrap(), None)
    }

    #[test]
    fn the_built_in_settings_are_the_defaults() {
        let push = read("").unwrap();
        assert_eq!(push.check(), Ok(()));
        let own = Some("127.0.0.1:8085".parse().unwrap());
        let expected = PushOptions { own, ..PushOptions::default() };
        assert_eq!(options("", "127.0.0.1:8085"), expected);
    }

    #[test]
    fn private_networks_are_guarded_where_others_reach_the_server() {
        for (lines, listen, is_allowed) in [
            ("", "127.0.0.1:1", true),
            ("", "[::1]:1", true),
            ("", "0.0.0.0:1", false),
            ("private_networks = \"allow\"", "0.0.0.0:1", true),
            ("private_networks = \"refuse\"", "127.0.0.1:1", false),
        ] {
            assert_eq!(options(lines, listen).private_networks, is_allowed, "{lines} {listen}");
        }
    }

    #[test]
    fn anybody_is_named_in_tokens_only_where_nobody_else_reaches_the_server() {
        let check = |lines: &str, listen: &str, account: &str| {
            options(lines, listen).oidc_accounts.check(account).is_ok()
        };
        let listed = "oidc_accounts = [\"*@shop.example.com\"]";
        for (lines, listen, account, is_allowed) in [
            ("", "127.0.0.1:1", "a@b.c", true),
            ("", "[::1]:1", "a@b.c", true),
            ("", "0.0.0.0:1", "a@b.c", false),
            (listed, "0.0.0.0:1", "a@b.c", false),
            (listed, "0.0.0.0:1", "a@shop.example.com", true),
            (listed, "127.0.0.1:1", "a@b.c", false),
            ("oidc_accounts = [\"*\"]", "0.0.0.0:1", "a@b.c", true),
        ] {
            assert_eq!(check(lines, listen, account), is_allowed, "{lines} {listen} {account}");
        }
    }

    #[test]
    fn every_setting_reaches_the_broker() {
        let given = read(
            r#"
            workers = 3
            timeout_seconds = 7
            in_flight_max = 8
            success = "google"
            retry_default = "source"
            attempt_log_bytes_max = "2MiB"
            allow = ["10.0.0.0/8", "192.168.1.5", "::1"]
            oidc_accounts = ["a@b.c"]
            ca_file = "roots.pem"
            connect_timeout = "1s"
            connects_max = 9
            connects_per_host_max = 2
            "#,
        )
        .unwrap();
        let expected = PushOptions {
            workers: 3,
            timeout: Duration::from_secs(7),
            in_flight_max: 8,
            success: Success::Google,
            retry_default: RetryDefault::Source,
            attempt_log_bytes_max: 2 << 20,
            private_networks: true,
            allow: ["10.0.0.0/8", "192.168.1.5/32", "::1/128"]
                .map(|net| net.parse().unwrap())
                .into(),
            ca_file: Some("roots.pem".into()),
            connect_timeout: Duration::from_secs(1),
            connects_max: 9,
            connects_per_host_max: 2,
            oidc_accounts: Accounts::Listed(vec![Pattern::parse("a@b.c").unwrap()]),
            own: Some("127.0.0.1:1".parse().unwrap()),
            data_dir: Some("data".into()),
        };
        let listen = "127.0.0.1:1".parse().unwrap();
        assert_eq!(given.options(listen, Some(Path::new("data"))), expected);
    }

    #[test]
    fn bad_settings_are_refused() {
        for lines in [
            "success = \"all\"",
            "retry_default = \"none\"",
            "allow = [\"10.0.0.0/33\"]",
            "allow = [\"example.com\"]",
            "oidc_accounts = [\"a b\"]",
            "private_networks = \"perhaps\"",
        ] {
            assert!(read(lines).is_err(), "{lines}");
        }
        for (lines, key) in [
            ("timeout_seconds = 0", "push.timeout_seconds"),
            ("timeout_seconds = 601", "push.timeout_seconds"),
            ("in_flight_max = 0", "push.in_flight_max"),
            ("attempt_log_bytes_max = \"1KiB\"", "push.attempt_log_bytes_max"),
            ("connect_timeout = \"0s\"", "push.connect_timeout"),
            ("connects_max = 0", "push.connects_max"),
            ("connects_per_host_max = 0", "push.connects_per_host_max"),
        ] {
            assert_eq!(read(lines).unwrap().check().unwrap_err().0, key);
        }
    }
}
