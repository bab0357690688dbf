//! How live subscriptions are kept.

use std::time::Duration;

use broker::LiveOptions;
use domain::TopicName;
use domain::limits::{LIVE_SUBSCRIPTIONS_MAX, LIVE_TTL_MAX};
use domain::live::Settings;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Checked, at_least, at_most, bytes_at_least, units};

/// How live subscriptions are kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// The topics whose messages are matched; none = those with the label.
    #[serde(deserialize_with = "topics")]
    pub topics: Vec<TopicName>,
    /// For a registration that names no TTL.
    #[serde(deserialize_with = "units::duration")]
    pub default_ttl: Duration,
    /// The shortest TTL.
    #[serde(deserialize_with = "units::duration")]
    pub min_ttl: Duration,
    /// The longest TTL.
    #[serde(deserialize_with = "units::duration")]
    pub max_ttl: Duration,
    /// Whether a gateway is told of what has expired.
    pub notify_on_expiry: bool,
    /// Frames that are kept for one gateway.
    pub buffer_frames: usize,
    /// Bytes of frames that are kept for all gateways.
    #[serde(deserialize_with = "units::bytes")]
    pub buffer_bytes: u64,
    /// A stream that is idle for this long sends a heartbeat.
    #[serde(deserialize_with = "units::duration")]
    pub heartbeat: Duration,
    /// How many there may be.
    pub quota: Quota,
}

/// How many live subscriptions there may be.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Of one gateway.
    pub max_per_gateway: usize,
    /// Of one tenant.
    pub max_per_tenant: usize,
    /// All together.
    pub max_global: usize,
}

/// Frames of one gateway, at most.
const BUFFER_FRAMES_MAX: usize = 1_000_000;

impl Live {
    pub(super) fn check(&self) -> Checked {
        at_least("live.min_ttl", self.min_ttl, Duration::from_secs(1))?;
        at_least("live.default_ttl", self.default_ttl, self.min_ttl)?;
        at_least("live.max_ttl", self.max_ttl, self.default_ttl)?;
        at_most("live.max_ttl", self.max_ttl, LIVE_TTL_MAX)?;
        for (key, ttl) in [
            ("live.min_ttl", self.min_ttl),
            ("live.default_ttl", self.default_ttl),
            ("live.max_ttl", self.max_ttl),
        ] {
            if ttl.subsec_nanos() != 0 {
                return Err((key, "must be whole seconds".to_owned()));
            }
        }
        between("live.buffer_frames", self.buffer_frames, BUFFER_FRAMES_MAX)?;
        bytes_at_least("live.buffer_bytes", self.buffer_bytes, 1 << 20)?;
        at_least("live.heartbeat", self.heartbeat, Duration::from_millis(100))?;
        at_most("live.heartbeat", self.heartbeat, Duration::from_secs(300))?;
        let Quota { max_per_gateway, max_per_tenant, max_global } = self.quota;
        between("live.quota.max_per_gateway", max_per_gateway, LIVE_SUBSCRIPTIONS_MAX)?;
        between("live.quota.max_per_tenant", max_per_tenant, LIVE_SUBSCRIPTIONS_MAX)?;
        between("live.quota.max_global", max_global, LIVE_SUBSCRIPTIONS_MAX)
    }

    pub(crate) fn options(&self) -> LiveOptions {
        LiveOptions {
            topics: Some(self.topics.clone()).filter(|topics| !topics.is_empty()),
            settings: Settings {
                ttl_default: self.default_ttl,
                ttl_min: self.min_ttl,
                ttl_max: self.max_ttl,
                per_gateway_max: self.quota.max_per_gateway,
                per_tenant_max: self.quota.max_per_tenant,
                global_max: self.quota.max_global,
            },
            notify_on_expiry: self.notify_on_expiry,
            buffer_frames: self.buffer_frames,
            buffer_bytes: usize::try_from(self.buffer_bytes).unwrap_or(usize::MAX),
            heartbeat: self.heartbeat,
        }
    }
}

fn between(key: &'static str, number: usize, max: usize) -> Checked {
    if (1..=max).contains(&number) { Ok(()) } else { Err((key, format!("1 to {max} are allowed"))) }
}

fn topics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TopicName>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let parse = |name: &String| TopicName::parse("topics", name).map_err(|bad| bad.problem);
    names.iter().map(parse).collect::<Result<_, _>>().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The built-in settings with these lines instead of their own.
    fn read(lines: &str) -> Result<Live, String> {
        let built_in: toml::Table = super::super::DEFAULTS.parse().unwrap();
        let mut table = built_in.get("live").unwrap().as_table().unwrap().clone();
        for (key, value) in lines.parse::<toml::Table>().unwrap() {
            match (table.get_mut(&key), value) {
                (Some(toml::Value::Table(held)), toml::Value::Table(given)) => held.extend(given),
                (_, value) => drop(table.insert(key, value)),
            }
        }
        table.try_into().map_err(|error: toml::de::Error| error.to_string())
    }

    #[test]
    fn the_built_in_settings_are_the_brokers_own() {
        let built_in = read("").unwrap();
        assert_eq!(built_in.check(), Ok(()));
        assert_eq!(built_in.options(), LiveOptions::default());
    }

    #[test]
    fn every_setting_reaches_the_broker() {
        let given = read(
            r#"
            topics = ["projects/p/topics/changes"]
            default_ttl = "2m"
            min_ttl = "5s"
            max_ttl = "10m"
            notify_on_expiry = true
            buffer_frames = 7
            buffer_bytes = "2MiB"
            heartbeat = "3s"
            quota = { max_per_gateway = 1, max_per_tenant = 2, max_global = 3 }
            "#,
        );
        let expected = LiveOptions {
            topics: Some(vec![TopicName::parse("t", "projects/p/topics/changes").unwrap()]),
            settings: Settings {
                ttl_default: Duration::from_secs(120),
                ttl_min: Duration::from_secs(5),
                ttl_max: Duration::from_secs(600),
                per_gateway_max: 1,
                per_tenant_max: 2,
                global_max: 3,
            },
            notify_on_expiry: true,
            buffer_frames: 7,
            buffer_bytes: 2 << 20,
            heartbeat: Duration::from_secs(3),
        };
        assert_eq!(given.unwrap().options(), expected);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        assert!(read("topics = [\"orders\"]").is_err());
        for (lines, key) in [
            ("min_ttl = \"0s\"", "live.min_ttl"),
            ("min_ttl = \"1500ms\"", "live.min_ttl"),
            ("min_ttl = \"10m\"", "live.default_ttl"),
            ("default_ttl = \"2h\"", "live.max_ttl"),
            ("max_ttl = \"2h\"", "live.max_ttl"),
            ("buffer_frames = 0", "live.buffer_frames"),
            ("buffer_frames = 1000001", "live.buffer_frames"),
            ("buffer_bytes = \"1KiB\"", "live.buffer_bytes"),
            ("heartbeat = \"10ms\"", "live.heartbeat"),
            ("heartbeat = \"1h\"", "live.heartbeat"),
            ("quota = { max_per_gateway = 0 }", "live.quota.max_per_gateway"),
            ("quota = { max_per_tenant = 0 }", "live.quota.max_per_tenant"),
            ("quota = { max_global = 1000001 }", "live.quota.max_global"),
        ] {
            let found = read(lines).unwrap().check().map_err(|(key, _)| key);
            assert_eq!(found, Err(key), "{lines}");
        }
    }
}
