//! The target that `FUZZ_TARGET` names, driven by libFuzzer, within a bound of memory.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use fuzz::Target;
use libfuzzer_sys::fuzz_target;

/// Bytes that one input may take at a time.
const BYTES_MAX: usize = 64 << 20;

/// Counts what is in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// What may be in use; beyond it the input is at fault.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        if used > LIMIT.load(Ordering::Relaxed) {
            LIMIT.store(usize::MAX, Ordering::Relaxed);
            panic!("an input takes more than {BYTES_MAX} bytes");
        }
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn target() -> &'static Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzz::find(&name).unwrap_or_else(|| {
        let names: Vec<_> = fuzz::TARGETS.iter().map(|target| target.name).collect();
        panic!("FUZZ_TARGET must name one of {}", names.join(", "))
    })
}

fuzz_target!(|input: &[u8]| {
    let target = TARGET.get_or_init(target);
    LIMIT.store(IN_USE.load(Ordering::Relaxed) + BYTES_MAX, Ordering::Relaxed);
    drop((target.run)(input));
    LIMIT.store(usize::MAX, Ordering::Relaxed);
});
