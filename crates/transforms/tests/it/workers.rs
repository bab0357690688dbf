//! Many owners, a few threads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use transforms::{
    Bounds, Cause, Chain, Failure, Field, Input, Options, Outcome, Program, Refused, Workers,
};

use crate::support::{body, input, message};

type Results = Vec<Result<Outcome, Failure>>;

/// What is enough for anything here, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn workers(threads: usize, time: Duration) -> Workers {
    let bounds = Bounds { time, ..Bounds::default() };
    within(threads, bounds)
}

fn within(threads: usize, bounds: Bounds) -> Workers {
    let path = env!("CARGO_BIN_EXE_transforms-helper").into();
    let program = Program { path, arguments: vec![] };
    Workers::new(program, Options { threads, bounds, ..Options::default() }).unwrap()
}

fn submit(workers: &Workers, owner: &str, chain: &Chain, inputs: Vec<Input>) -> Receiver<Results> {
    let (sender, receiver) = channel();
    let done = move |results| drop(sender.send(results));
    workers.submit(&owner.into(), chain, inputs, done).unwrap();
    receiver
}

#[expect(clippy::disallowed_methods, reason = "how long others wait is what is tested")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn results_come_in_the_order_of_the_messages() {
    let workers = workers(3, SOON);
    let chain = body("return message.data === '5' ? null : { data: message.data + '!' };");
    let inputs = |from: usize| (from..from + 100).map(|n| input(&n.to_string(), &[])).collect();
    let waiting: Vec<_> = (0..20)
        .map(|n| submit(&workers, &format!("o{}", n % 3), &chain, inputs(n * 100)))
        .collect();
    for (n, results) in waiting.into_iter().enumerate() {
        let results = results.recv_timeout(SOON).unwrap();
        assert_eq!(results.len(), 100);
        for (at, result) in results.into_iter().enumerate() {
            let number = n * 100 + at;
            let expected = match number {
                5 => Outcome::Filtered,
                _ => message(&format!("{number}!"), &[]),
            };
            assert_eq!(result, Ok(expected));
        }
    }
    assert_eq!(submit(&workers, "o", &chain, vec![]).recv_timeout(SOON).unwrap(), vec![]);
}

#[test]
fn failures_are_of_their_message_only() {
    let workers = workers(2, Duration::from_millis(100));
    let chain =
        body("if (message.data === 'x') throw 1; while (message.data === 'y'); return message;");
    let inputs = ["a", "x", "b", "y", "c"].map(|data| input(data, &[])).to_vec();
    let results = submit(&workers, "o", &chain, inputs).recv_timeout(SOON).unwrap();
    let causes: Vec<_> = results.iter().map(|it| it.as_ref().err().map(|it| it.cause)).collect();
    assert_eq!(causes, [None, Some(Cause::Threw), None, Some(Cause::TooSlow), None]);
}

#[test]
fn functions_are_compiled_by_workers_too() {
    let workers = workers(2, Duration::from_millis(100));
    let compile = |code: &str| {
        let (sender, receiver) = channel();
        let done = move |compiled| drop(sender.send(compiled));
        workers.compile(&"o".into(), "f", code, done).unwrap();
        receiver.recv_timeout(SOON).unwrap()
    };
    assert_eq!(&**compile("function f() {}").unwrap().function_name(), "f");
    let refused = compile("while (true);").unwrap_err();
    assert_eq!((refused.field, refused.what.as_str()), (Field::Code, "took too long"));
    assert_eq!(compile("let g;").unwrap_err().field, Field::FunctionName);
}

/// How long 1,000 messages of a quick owner take, ten at a time.
fn quick_run(workers: &Workers, chain: &Chain) -> Duration {
    let started = now();
    for _ in 0..100 {
        let inputs = vec![input(r#"{"n":1}"#, &[]); 10];
        let results = submit(workers, "quick", chain, inputs).recv_timeout(SOON).unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
    started.elapsed()
}

fn quick_chain() -> Chain {
    body(
        "const d = JSON.parse(message.data); d.n++; message.data = JSON.stringify(d); return message;",
    )
}

#[test]
fn scripts_without_an_end_do_not_hold_up_other_owners() {
    // With the time of a script as it is, one that had to be waited for would show.
    for threads in [2, 3] {
        let workers = workers(threads, Bounds::default().time);
        let chain = quick_chain();
        let alone = quick_run(&workers, &chain);
        let endless = body("while (true);");
        let (sender, ends) = channel();
        let mut taken = 0;
        for owner in ["bad", "worse", "worst"] {
            // A line as full as it may be.
            let inputs = vec![input(&"x".repeat(100_000), &[]); 20];
            loop {
                let sender = sender.clone();
                let done = move |results: Results| drop(sender.send(results));
                match workers.submit(&owner.into(), &endless, inputs.clone(), done) {
                    Ok(()) => taken += 1,
                    Err(refused) => break assert_eq!(refused, Refused::Full),
                }
            }
        }
        let beside = quick_run(&workers, &chain);
        assert!(
            beside < alone * 20 + Duration::from_millis(400),
            "{threads} threads: alone {alone:?}, beside endless ones {beside:?}"
        );
        drop(workers);
        drop(sender);
        let answered: Vec<_> = ends.iter().collect();
        assert_eq!(answered.len(), taken, "each was answered once");
        assert!(answered.iter().all(|results| results.len() == 20));
    }
}

#[test]
fn many_slow_scripts_of_one_owner_do_not_hold_up_others() {
    let workers = workers(3, Duration::from_millis(500));
    let chain = quick_chain();
    let alone = quick_run(&workers, &chain);
    let slow = body("const until = Date.now() + 90; while (Date.now() < until); return message;");
    let waiting: Vec<_> =
        (0..20).map(|_| submit(&workers, "slow", &slow, vec![input("x", &[]); 50])).collect();
    let beside = quick_run(&workers, &chain);
    assert!(
        beside < alone * 20 + Duration::from_millis(400),
        "alone {alone:?}, beside slow ones {beside:?}"
    );
    drop(workers);
    for results in waiting {
        let results = results.recv_timeout(SOON).unwrap();
        let known = |it: &Result<_, Failure>| {
            it.as_ref().map_or_else(|failure| failure.cause == Cause::Closed, |_| true)
        };
        assert!(results.len() == 50 && results.iter().all(known), "{results:?}");
    }
}

/// Steps of built-ins that take long, during which the interpreter does not ask for the deadline.
#[test]
fn scripts_that_cannot_be_interrupted_are_killed() {
    let workers = workers(2, Duration::from_millis(50));
    for code in [
        "const a = []; a.length = 2 ** 32 - 1; a.join('');",
        "'a'.repeat(4e6).indexOf('a'.repeat(2e6) + 'b');",
        "const s = 'ab'.repeat(2e6); for (;;) s.toUpperCase();",
        "const n = 3n ** 200000n; for (;;) n * n;",
    ] {
        let chain = body(&format!("if (message.data === 'x') {{ {code} }} return message;"));
        let inputs = ["a", "x", "b"].map(|data| input(data, &[])).to_vec();
        let results = submit(&workers, "o", &chain, inputs).recv_timeout(SOON).unwrap();
        assert_eq!(results[0], Ok(message("a", &[])), "{code}");
        assert_eq!(results[1].as_ref().unwrap_err().cause, Cause::TooSlow, "{code}");
        assert_eq!(results[2], Ok(message("b", &[])), "{code}");
    }
}

/// The interpreter is known to crash when its memory runs out in some places.
#[test]
fn scripts_that_want_all_memory_fail_alone() {
    let workers = workers(2, Duration::from_millis(200));
    for code in [
        "const a = []; while (true) a.push(new Array(1000).fill(1));",
        "const a = []; while (true) a.push({ x: 1, y: 2, z: 3 });",
        "let s = 'x'; while (true) s += s;",
        "let s = 'x'; while (true) s += s + 'ä€';",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i });",
        "new Uint8Array(2 ** 30);",
        "return { data: 'x'.repeat(2 ** 29) };",
        "return { data: 'x'.padEnd(2 ** 26) };",
        "let a = [1, 1]; for (let i = 0; i < 40; i++) a = [a, a]; JSON.stringify(a);",
        "let o = {}; for (let i = 0; ; i++) o['key' + i] = o;",
        "const a = Array(2 ** 28); a.fill(1);",
        "return { data: 'x', attributes: Object.fromEntries(
            Array.from({ length: 1e7 }, (_, i) => [i, 'v'])) };",
    ] {
        let chain = body(&format!("if (message.data === 'x') {{ {code} }} return message;"));
        let inputs = ["a", "x", "b"].map(|data| input(data, &[])).to_vec();
        let results = submit(&workers, "o", &chain, inputs).recv_timeout(SOON).unwrap();
        assert_eq!(results[0], Ok(message("a", &[])), "{code}");
        let failure = results[1].as_ref().expect_err(code);
        assert_ne!(failure.cause, Cause::Closed, "{code}: {failure}");
        assert_eq!(results[2], Ok(message("b", &[])), "{code}");
    }
}

/// Memory that runs out in the midst of anything is no worse.
#[test]
fn memory_may_run_out_anywhere() {
    let chain = body(
        "const d = JSON.parse(message.data); d.list = [1, 2, 3].map(n => ({ n, s: 'x' + n }));
         for (const w of 'a b c'.split(/ /)) d[w] = new Map([[w, d.list.slice()]]);
         class A { #p = 1; get p() { return this.#p } } d.p = 10n ** 20n > new A().p;
         message.data = JSON.stringify(d); message.attributes.x = `${d.p}`; return message;",
    );
    let given = input(r#"{"a":[1,2,{"b":"c"}]}"#, &[("k", "v")]);
    let mut failed = 0;
    for step in 0..60 {
        let bounds = Bounds { memory_bytes: (100 << 10) + step * 1_511, ..Bounds::default() };
        let workers = within(2, bounds);
        let results = submit(&workers, "o", &chain, vec![given.clone(); 2]).recv_timeout(SOON);
        failed += results.unwrap().iter().filter(|result| result.is_err()).count();
    }
    assert!((1..120).contains(&failed), "{failed}");
}

#[test]
fn a_helper_that_is_none_fails_messages_and_functions() {
    for path in ["/nowhere/to/be/found", "/bin/true", "/bin/cat"] {
        let program = Program { path: path.into(), arguments: vec![] };
        let workers = Workers::new(program, Options::default()).unwrap();
        let chain = body("return message;");
        let results = submit(&workers, "o", &chain, vec![input("x", &[]); 2]).recv_timeout(SOON);
        for result in results.unwrap() {
            assert_eq!(result.unwrap_err().cause, Cause::Crashed, "{path}");
        }
    }
}

#[test]
fn closing_answers_all_and_ends_the_threads() {
    let workers = workers(3, SOON);
    let endless = body("while (true);");
    let waiting: Vec<_> =
        (0..10).map(|_| submit(&workers, "o", &endless, vec![input("x", &[]); 5])).collect();
    let running = submit(&workers, "other", &body("return message;"), vec![input("x", &[])]);
    assert!(running.recv_timeout(SOON).unwrap()[0].is_ok());
    // The endless one runs by now; threads hold the sender of an answer until they end.
    let kept: Arc<str> = "kept".into();
    workers.close();
    let refused = workers.submit(&kept, &endless, vec![], |_| ());
    assert_eq!(refused, Err(Refused::Closed));
    for results in waiting {
        let results = results.recv_timeout(SOON).unwrap();
        assert_eq!(results.len(), 5);
        for result in results {
            assert_eq!(result.unwrap_err().cause, Cause::Closed);
        }
    }
}

#[test]
fn a_completion_that_panics_costs_no_thread() {
    let workers = workers(2, SOON);
    let chain = body("return message;");
    for _ in 0..5 {
        let done = |_: Results| panic!("not ours");
        workers.submit(&"o".into(), &chain, vec![input("x", &[])], done).unwrap();
    }
    assert!(submit(&workers, "o", &chain, vec![input("x", &[])]).recv_timeout(SOON).is_ok());
}
