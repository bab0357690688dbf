//! Runs a target with inputs made of its seeds: changed, cut, joined, and with words put in.
//!
//! It knows nothing of coverage. What it keeps to build on is what the target answered in words
//! that it had not answered before: a parser that says where it stopped tells how far one came.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use testkit::Random;

use crate::Target;

/// Bytes of an input, at most.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// Inputs kept to build on, at most.
const KEPT_MAX: usize = 2_000;
/// Inputs tried beside the seeds, at least, however busy the machine is.
const INPUTS_MIN: u64 = 64;
/// Changes made to an input at once, at most.
const CHANGES_MAX: u64 = 6;
/// An input may take so long for each KiB of it, and at least `TIME_MIN`.
const TIME_PER_KIB: Duration = Duration::from_millis(100);
const TIME_MIN: Duration = Duration::from_secs(2);
/// How often an input that took too long is tried again: the machine may have been busy.
const TRIES: usize = 4;

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct Driven {
    /// Inputs tried.
    pub inputs: u64,
    /// Different answers.
    pub answers: usize,
}

/// Tries inputs for about `time`; the same `seed` makes the same inputs. Panics with the input
/// where the target does, or where it takes too long for it.
pub fn drive(target: &Target, seed: u64, time: Duration) -> Driven {
    let started = now();
    let mut random = Random::seeded(seed);
    let mut kept: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.to_vec()).collect();
    let mut answers = HashSet::new();
    for input in &kept {
        answers.insert(shape(&try_one(target, input)));
    }
    let mut inputs = kept.len() as u64;
    let inputs_min = inputs + INPUTS_MIN;
    while inputs < inputs_min || started.elapsed() < time {
        let input = make(&mut random, target, &kept);
        let is_new = answers.insert(shape(&try_one(target, &input)));
        if is_new && kept.len() < KEPT_MAX {
            kept.push(input);
        }
        inputs += 1;
    }
    Driven { inputs, answers: answers.len() }
}

/// Runs the target with one input.
fn try_one(target: &Target, input: &[u8]) -> String {
    let allowed = TIME_MIN.max(TIME_PER_KIB * u32::try_from(input.len() >> 10).unwrap_or(0));
    for left in (0..TRIES).rev() {
        let started = now();
        let answer = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        let took = started.elapsed();
        let Ok(answer) = answer else { panic!("{} breaks with {}", target.name, shown(input)) };
        if took <= allowed {
            return answer;
        }
        assert!(left > 0, "{} takes {took:?} for {}", target.name, shown(input));
    }
    String::new()
}

/// An input as Rust writes it, so that it can be put into a test.
fn shown(input: &[u8]) -> String {
    format!("b\"{}\"", input.escape_ascii())
}

/// What an answer says, without the numbers and what it quotes of the input.
fn shape(answer: &str) -> String {
    let mut shape = String::new();
    let mut is_quoted = false;
    for letter in answer.chars().take(300) {
        match letter {
            '"' | '\'' | '`' => is_quoted = !is_quoted,
            _ if is_quoted || letter.is_ascii_digit() => {}
            _ => shape.push(letter),
        }
    }
    shape
}

fn make(random: &mut Random, target: &Target, kept: &[Vec<u8>]) -> Vec<u8> {
    let mut input = kept.get(random.index(kept.len())).cloned().unwrap_or_default();
    for _ in 0..=random.below(CHANGES_MAX) {
        change(random, target, kept, &mut input);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// Numbers at whose edges parsers go wrong.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

fn change(random: &mut Random, target: &Target, kept: &[Vec<u8>], input: &mut Vec<u8>) {
    let at = random.index(input.len() + 1);
    match random.below(9) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.draw().to_le_bytes()[0];
            }
        }
        2 => input.truncate(at),
        3 => {
            let end = (at + 1 + random.index(16)).min(input.len());
            input.drain(at.min(end)..end);
        }
        4 => {
            let end = (at + 1 + random.index(64)).min(input.len());
            let part = input.get(at..end).unwrap_or_default().to_vec();
            let times = 1 + random.index(8);
            put(input, at, &part.repeat(times));
        }
        5 => {
            let edge = EDGES[random.index(EDGES.len())].to_le_bytes();
            let bytes = &edge[..1 << random.index(4)];
            match input.get_mut(at..at + bytes.len()) {
                Some(place) => place.copy_from_slice(bytes),
                None => put(input, at, bytes),
            }
        }
        6 => {
            let other = kept.get(random.index(kept.len())).map_or(&[][..], Vec::as_slice);
            let from = random.index(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(other.get(from..).unwrap_or_default());
        }
        _ => {
            let word = target.words.get(random.index(target.words.len())).copied();
            put(input, at, word.unwrap_or(" ").as_bytes());
        }
    }
}

fn put(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

#[expect(clippy::disallowed_methods, reason = "how long a parser takes is what is measured")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(run: fn(&[u8]) -> String) -> Target {
        Target { name: "t", what: "", run, seeds: &[b"abc"], words: &["needle"] }
    }

    #[test]
    fn what_breaks_a_target_is_found_and_shown() {
        let breaks = target(|input| {
            assert!(!input.windows(6).any(|part| part == b"needle"), "found");
            input.len().to_string()
        });
        let driven = catch_unwind(|| drive(&breaks, 7, Duration::from_secs(30)));
        let said = *driven.unwrap_err().downcast::<String>().unwrap();
        assert!(said.starts_with("t breaks with b\"") && said.contains("needle"), "{said}");
    }

    #[test]
    fn answers_are_told_apart_by_their_words_alone() {
        assert_eq!(shape("at 7: no \"x7\" here"), shape("at 12: no \"y\" here"));
        assert_ne!(shape("at 7: no end"), shape("at 7: no name"));
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let any = target(|_| String::new());
        let kept = vec![b"abc".to_vec(), b"{\"a\": [1]}".to_vec()];
        let made = |seed| {
            let mut random = Random::seeded(seed);
            (0..200).map(|_| make(&mut random, &any, &kept)).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }
}
