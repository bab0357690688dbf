//! Scripts that mean harm.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use transforms::{Bounds, Cause, Outcome, Sandbox, Udf, run};

use crate::support::{body, chain, function, input, message, ran};

/// What is enough for anything here, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

fn quick() -> Bounds {
    Bounds { time: Duration::from_millis(100), ..Bounds::default() }
}

#[expect(clippy::disallowed_methods, reason = "how long a script takes is what is tested")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let done = work();
    (done, started.elapsed())
}

/// The causes with which each of these ends, in time.
fn ends(codes: &[&str], causes: &[Cause]) {
    for code in codes {
        let chain = body(code);
        let mut sandbox = Sandbox::new(&chain, quick());
        for _ in 0..2 {
            let (outcome, took) = timed(|| sandbox.run(&input("{}", &[])));
            let failure = outcome.expect_err(code);
            assert!(causes.contains(&failure.cause), "{code}: {failure:?}");
            assert!(took < SOON, "{code}: {took:?}");
        }
    }
}

#[test]
fn scripts_without_an_end_are_stopped() {
    ends(
        &[
            "while (true);",
            "for (;;) { try { while (true); } catch {} finally { continue; } }",
            "do { try { throw 1 } catch {} } while (1);",
            "return { get data() { while (true); } };",
            "return { data: 'x', get attributes() { while (true); } };",
            "return { data: 'x', attributes: { get k() { while (true); } } };",
            "return new Proxy({}, { get() { while (true); } });",
            "return { data: 'x', attributes: new Proxy({}, { ownKeys() { while (true); } }) };",
            "throw { get message() { while (true); } };",
            "throw new Proxy({}, { get() { while (true); } });",
            "/(a*)*b/.test('a'.repeat(200));",
            "/^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(200));",
            "'a'.repeat(200).replace(/(a*)*b/g, 'x');",
            "[1].map(function again() { while (true); });",
            "new Array(2 ** 32 - 1).indexOf(1);",
            "Array.prototype.forEach.call({ length: 2 ** 53 - 1 }, () => 0);",
            "eval('while (true);');",
            "new Function('while (true);')();",
            "for (const x of (function* () { while (true) yield 1; })());",
            "Object.defineProperty(Object.prototype, 'x', { get() { while (1); } }); ({}).x;",
            "JSON.stringify({ toJSON() { while (true); } });",
            "[2, 1].sort(() => { while (true); });",
            "String({ toString() { while (true); } });",
            "Error.prepareStackTrace = () => { while (true); }; throw new Error('x');",
        ],
        &[Cause::TooSlow],
    );
}

#[test]
fn recursion_without_an_end_is_an_error_of_the_script() {
    ends(
        &[
            "const g = () => g() + 1; g();",
            "const o = { toString() { return `${this}`; } }; String(o);",
            "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a);",
            "JSON.parse('['.repeat(1e6));",
            "eval('('.repeat(1e5));",
            "new RegExp('('.repeat(1e5));",
            "return new Proxy({}, { get(t, k, r) { return r[k]; } });",
            "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p;",
        ],
        &[Cause::Threw, Cause::OutOfMemory, Cause::TooSlow, Cause::BadResult],
    );
}

/// Deep structures are taken apart without recursion, also when a sandbox goes.
#[test]
fn deep_structures_can_be_left_behind() {
    for code in [
        "let o = {}; for (let i = 0; i < 5e4; i++) o = { o }; globalThis.kept = o;",
        "let p = Promise.resolve(); for (let i = 0; i < 1e4; i++) p = p.then(() => 1);",
        "let f = () => 1; for (let i = 0; i < 5e4; i++) { const g = f; f = () => g; } kept = f;",
    ] {
        assert_eq!(
            ran(&format!("{code} return message;")).unwrap(),
            ran("return message;").unwrap()
        );
    }
}

#[test]
fn after_a_failure_a_sandbox_is_as_good_as_new() {
    let code = "let count = 0; function f(message) {
        count++;
        if (message.data === 'loop') while (true);
        if (message.data === 'hog') new Uint8Array(2 ** 30);
        if (message.data === 'throw') throw new Error();
        return { data: String(count) };
    }";
    let mut sandbox = Sandbox::new(&chain(&[code]), quick());
    let mut run = |data: &str| sandbox.run(&input(data, &[])).map_err(|failure| failure.cause);
    assert_eq!(run(""), Ok(message("1", &[])));
    assert_eq!(run(""), Ok(message("2", &[])), "globals stay while all is well");
    assert_eq!(run("throw"), Err(Cause::Threw));
    assert_eq!(run(""), Ok(message("4", &[])), "what is thrown is no reason to begin anew");
    assert_eq!(run("loop"), Err(Cause::TooSlow));
    assert_eq!(run(""), Ok(message("1", &[])));
    assert_eq!(run("hog"), Err(Cause::OutOfMemory));
    assert_eq!(run(""), Ok(message("1", &[])));
}

#[test]
fn scripts_cannot_reach_each_other() {
    let spoils = "
        Object.prototype.data = 'spoiled'; Object.prototype.attributes = { spoiled: 'yes' };
        Object.defineProperty(Object.prototype, 'toString', { get() { while (true); } });
        Array.prototype.map = JSON.parse = JSON.stringify = () => 'spoiled';
        Array.prototype[Symbol.iterator] = String.prototype.toString = () => { while (true); };
        Object.keys = Reflect.ownKeys = () => ['spoiled']; globalThis.mine = 'left here';
        Object.defineProperty(Object.prototype, 'spoiled', { set() { while (true); } });
        function f(message) { return message; }";
    let sees = function(
        "const d = JSON.parse(message.data); d.seen = typeof mine + [...'ab'].map(c => c) +
         ({}).data + Object.keys({ k: 1 }); message.data = JSON.stringify(d); return message;",
    );
    let given = input(r#"{"n":1}"#, &[("a", "b")]);
    // In another chain, and in the same one before and behind it.
    let seen = |outcome: Outcome| {
        outcome == message(r#"{"n":1,"seen":"undefineda,bundefinedk"}"#, &[("a", "b")])
    };
    let spoiled = chain(&[spoils]);
    let mut first = Sandbox::new(&spoiled, Bounds::default());
    for _ in 0..3 {
        assert_eq!(first.run(&given), Ok(message(r#"{"n":1}"#, &[("a", "b")])));
        assert!(seen(run(&chain(&[&sees]), &given).unwrap()));
    }
    assert!(seen(run(&chain(&[spoils, &sees, spoils]), &given).unwrap()));
}

/// Prototypes that a script changes change what it returns, and nothing else.
#[test]
fn a_script_that_spoils_its_own_prototypes_has_itself_to_blame() {
    let inherits = "Object.prototype.data = 'all'; function f() { return {}; }";
    let given = input("x", &[]);
    assert_eq!(run(&chain(&[inherits]), &given), Ok(message("all", &[])));
    let setter = "Object.defineProperty(Object.prototype, 'data', { set() { while (1); } });
        function f(m) { return m; }";
    assert_eq!(run(&chain(&[setter]), &given), Ok(message("x", &[])));
}

#[test]
fn scripts_find_the_language_and_nothing_of_the_host() {
    let code =
        function("return { data: Object.getOwnPropertyNames(globalThis).sort().join(' ') };");
    let Ok(Outcome::Message { data, .. }) = run(&chain(&[&code]), &input("x", &[])) else {
        panic!("no names");
    };
    let data = String::from_utf8(data.to_vec()).unwrap();
    let found: BTreeSet<&str> = data.split(' ').collect();
    let allowed: BTreeSet<&str> = ALLOWED.split_whitespace().collect();
    assert_eq!(found.difference(&allowed).collect::<Vec<_>>(), Vec::<&&str>::new());
    let missing = ["Object", "JSON", "Math", "RegExp", "Date", "Map", "Promise", "BigInt"];
    assert!(missing.iter().all(|name| found.contains(name)), "{data}");
}

/// What ECMAScript names, and `f`. `InternalError` is the interpreter's, and plain JavaScript.
const ALLOWED: &str = "
    AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array
    Boolean DataView Date DisposableStack Error EvalError FinalizationRegistry Float16Array
    Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array InternalError
    Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp
    Set String SuppressedError Symbol SyntaxError TypeError URIError Uint16Array Uint32Array
    Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet decodeURI decodeURIComponent encodeURI
    encodeURIComponent escape eval f globalThis isFinite isNaN parseFloat parseInt undefined
    unescape";

#[test]
fn modules_cannot_be_imported() {
    let failure = ran("import('fs'); return message;");
    // The promise is nobody's; what counts is that nothing is loaded.
    assert_eq!(failure, ran("return message;"));
    assert!(Udf::compile("f", "import fs from 'fs'; function f() {}").is_err());
    for name in ["std", "os", "require", "process", "console", "setTimeout", "scriptArgs", "print"]
    {
        assert_eq!(
            ran(&format!("return {{ data: typeof {name} }};")),
            Ok(message("undefined", &[])),
            "{name}"
        );
    }
}

#[test]
fn large_messages_have_the_memory_they_need() {
    let ascii = "x".repeat(9_999_990);
    let wide = format!("{}🦀", "x".repeat(9_000_000));
    for data in [ascii, wide] {
        let outcome = run(&body("return message;"), &input(&data, &[]));
        assert_eq!(outcome.map_err(|failure| failure.to_string()), Ok(message(&data, &[])));
    }
    let list = format!("[{}1]", r#"{"k":"some text","n":1},"#.repeat(80_000));
    let code = "message.data = JSON.stringify(JSON.parse(message.data)); return message;";
    let mut sandbox =
        Sandbox::new(&body(code), Bounds { time: Duration::from_secs(20), ..Bounds::default() });
    let outcome = sandbox.run(&input(&list, &[]));
    assert_eq!(outcome.map_err(|failure| failure.to_string()), Ok(message(&list, &[])));
}
