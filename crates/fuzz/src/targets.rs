//! The targets: one table.

mod addresses;
mod disk;
mod filters;
mod names;
mod schemas;
mod seeds;
mod transforms;
mod wires;

/// A parser, and what to begin with.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Whose bytes it reads.
    pub what: &'static str,
    /// Runs it; what it answered.
    pub run: fn(&[u8]) -> String,
    /// Inputs to begin with.
    pub seeds: &'static [&'static [u8]],
    /// Words that are put into inputs.
    pub words: &'static [&'static str],
}

/// All of them.
pub static TARGETS: [Target; 22] = [
    Target {
        name: "log_file",
        what: "a log file: header, groups, frames, records",
        run: storage::disk::fuzzing::log_file,
        seeds: seeds::LOG_FILE,
        words: &["\x01\0\0\0", "\x02\0\0\0", "PGRP", "PRWAL\0\r\n", "\0\0\0\0\0\0\0\0"],
    },
    Target {
        name: "progress",
        what: "checkpoints, snapshots and the index of a segment",
        run: disk::progress,
        seeds: seeds::PROGRESS,
        words: &["\x01", "\0\0\0\0\0\0\0\0", "\u{ff}\u{ff}"],
    },
    Target {
        name: "definitions",
        what: "definitions of topics, subscriptions, snapshots and replays in the database",
        run: broker::fuzzing::definition,
        seeds: seeds::DEFINITIONS,
        words: seeds::DEFINITION_WORDS,
    },
    Target {
        name: "filter",
        what: "filters in Google's language",
        run: filters::google,
        seeds: seeds::FILTERS,
        words: seeds::FILTER_WORDS,
    },
    Target {
        name: "cel",
        what: "filters in the CEL spelling",
        run: filters::cel,
        seeds: seeds::CEL,
        words: seeds::CEL_WORDS,
    },
    Target {
        name: "names",
        what: "names of resources, field masks, labels",
        run: names::names,
        seeds: seeds::NAMES,
        words: seeds::NAME_WORDS,
    },
    Target {
        name: "proto_json",
        what: "JSON of Google's messages",
        run: wires::proto_json,
        seeds: seeds::PROTO_JSON,
        words: seeds::JSON_WORDS,
    },
    Target {
        name: "rest",
        what: "REST paths, queries and where they are bound",
        run: server::fuzzing::rest,
        seeds: seeds::REST,
        words: seeds::REST_WORDS,
    },
    Target {
        name: "envelope",
        what: "pushes as a consumer receives them",
        run: consumer::push::fuzzing::envelope,
        seeds: seeds::ENVELOPES,
        words: seeds::JSON_WORDS,
    },
    Target {
        name: "token",
        what: "bearer tokens and the sets of keys they are checked with",
        run: consumer::push::fuzzing::token,
        seeds: seeds::TOKENS,
        words: &[".", "eyJhbGciOiJSUzI1NiJ9", "{\"keys\":[", "\"kty\":\"RSA\"", "\n", "\"kid\":"],
    },
    Target {
        name: "address",
        what: "endpoints and the addresses behind them, beside another table of special blocks",
        run: addresses::address,
        seeds: seeds::ADDRESSES,
        words: seeds::ADDRESS_WORDS,
    },
    Target {
        name: "answer",
        what: "endpoints' answers",
        run: broker::fuzzing::answer,
        seeds: seeds::ANSWERS,
        words: seeds::ANSWER_WORDS,
    },
    Target {
        name: "live",
        what: "gateways' paths, bodies and where their streams go on",
        run: server::fuzzing::live,
        seeds: seeds::LIVE,
        words: seeds::JSON_WORDS,
    },
    Target {
        name: "tokens_given_out",
        what: "ack ids and page tokens that come back",
        run: names::given_out,
        seeds: seeds::GIVEN_OUT,
        words: &["A", "AAAA", "YXQg", "==", "-", "_"],
    },
    Target {
        name: "config",
        what: "the file of settings",
        run: server::fuzzing::config,
        seeds: seeds::CONFIGS,
        words: seeds::CONFIG_WORDS,
    },
    Target {
        name: "json",
        what: "messages' data as filters see it",
        run: filters::json,
        seeds: seeds::JSON,
        words: seeds::JSON_WORDS,
    },
    Target {
        name: "avro_definition",
        what: "definitions of schemas in Avro",
        run: schemas::avro_definition,
        seeds: schemas::AVRO_DEFINITIONS,
        words: schemas::AVRO_WORDS,
    },
    Target {
        name: "avro_message",
        what: "messages of an Avro schema, in both encodings",
        run: schemas::avro_message,
        seeds: schemas::AVRO_MESSAGES,
        words: schemas::AVRO_MESSAGE_WORDS,
    },
    Target {
        name: "protobuf_definition",
        what: "definitions of schemas in Protocol Buffers",
        run: schemas::protobuf_definition,
        seeds: schemas::PROTOBUF_DEFINITIONS,
        words: schemas::PROTOBUF_WORDS,
    },
    Target {
        name: "protobuf_message",
        what: "messages of a Protobuf schema, in both encodings",
        run: schemas::protobuf_message,
        seeds: schemas::PROTOBUF_MESSAGES,
        words: schemas::PROTOBUF_MESSAGE_WORDS,
    },
    Target {
        name: "transform_returned",
        what: "what functions of transforms return",
        run: ::transforms::fuzzing::returned,
        seeds: transforms::RETURNED,
        words: &["\x45\x02", "\x40", "\x44", "\x01", "\x06", "\x7f"],
    },
    Target {
        name: "transform_answered",
        what: "what the processes that run transforms answer",
        run: ::transforms::fuzzing::answered,
        seeds: transforms::ANSWERED,
        words: &["\x0a\x00", "\x12\x06", "\x1a\x01", "\x20\x03", "\u{ff}\x0f"],
    },
];

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use testkit::seed;

    use super::*;
    use crate::driver::drive;

    /// Seconds for each target; more with `FUZZ_SECONDS`.
    const SECONDS: u64 = 1;
    /// By how much a target may make the process grow, the inputs it keeps included.
    const GROWTH_BYTES_MAX: u64 = 96 << 20;

    /// One at a time, or the memory of one would be taken for another's.
    static TURN: Mutex<()> = Mutex::new(());

    /// The most memory the process ever had, in bytes.
    fn memory_max() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or_default() << 10
    }

    fn hold(name: &str) {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let target = find(name).unwrap();
        let seed = seed::seed_or(20_261_116);
        let seconds = seed::number("FUZZ_SECONDS").unwrap_or(SECONDS);
        let before = memory_max();
        let driven = drive(target, seed, Duration::from_secs(seconds));
        let growth = memory_max().saturating_sub(before);
        println!("{name}: {driven:?}, {} MiB more, TEST_SEED={seed}", growth >> 20);
        assert!(growth <= GROWTH_BYTES_MAX, "{name} took {growth} bytes, TEST_SEED={seed}");
        assert!(driven.inputs > target.seeds.len() as u64, "{name}: nothing was tried");
        drop(turn);
    }

    macro_rules! each_target {
        ($($name:ident)*) => {
            $(#[test]
            fn $name() {
                hold(stringify!($name));
            })*

            #[test]
            fn every_target_is_run() {
                let run = [$(stringify!($name)),*];
                assert_eq!(TARGETS.map(|target| target.name), run);
            }
        };
    }

    each_target! {
        log_file progress definitions filter cel names proto_json rest envelope token address
        answer live tokens_given_out config json avro_definition avro_message protobuf_definition
        protobuf_message transform_returned transform_answered
    }

    /// Seeds that are refused at once lead nowhere.
    #[test]
    fn seeds_get_past_the_first_check() {
        for (name, word) in [
            ("definitions", "read"),
            ("config", "read"),
            ("filter", "read"),
            ("cel", "read"),
            ("proto_json", "read"),
            ("envelope", "read"),
            ("log_file", "message"),
            ("answer", "200"),
            ("avro_definition", "read"),
            ("avro_message", "good"),
            ("protobuf_definition", "read"),
            ("protobuf_message", "good"),
            ("transform_returned", "message, 1"),
            ("transform_answered", "message, 1"),
        ] {
            let target = find(name).unwrap();
            let said: Vec<String> = target.seeds.iter().map(|seed| (target.run)(seed)).collect();
            assert!(said.iter().any(|said| said.contains(word)), "{name}: {said:?}");
        }
    }
}
