use testkit::FakeClock;

use super::*;

/// Resolves every name except `nowhere` to `127.0.0.1`, counts the lookups, and can delay answers.
struct Counting {
    asked: watch::Sender<usize>,
    is_open: watch::Sender<bool>,
}

impl Counting {
    fn new(is_open: bool) -> Arc<Self> {
        Arc::new(Self { asked: watch::Sender::new(0), is_open: watch::Sender::new(is_open) })
    }

    fn asked(&self) -> usize {
        *self.asked.borrow()
    }
}

impl Lookup for Counting {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.send_modify(|count| *count += 1);
        let mut is_open = self.is_open.subscribe();
        Box::pin(async move {
            is_open.wait_for(|open| *open).await.unwrap();
            match name.as_str() {
                "nowhere" => Err(io::Error::other("no such name")),
                _ => Ok(vec!["127.0.0.1".parse().unwrap()]),
            }
        })
    }
}

fn resolver(is_open: bool) -> (Resolver, Arc<Counting>, Arc<FakeClock>) {
    let (lookup, clock) = (Counting::new(is_open), Arc::new(FakeClock::default()));
    (Resolver::new(Arc::clone(&lookup) as _, Arc::clone(&clock) as _), lookup, clock)
}

async fn find(resolver: &Resolver, name: &str) -> Result<Addresses, NoAddress> {
    let clock = Arc::clone(&resolver.clock);
    let timeout = Duration::from_secs(30);
    let mut allowance = Allowance::new(&*clock, timeout, clock.now().plus(timeout));
    resolver.addresses(name, &mut allowance).await
}

#[tokio::test]
async fn what_was_found_counts_for_five_seconds_and_what_was_not_for_one() {
    for (name, seconds) in [("somewhere", 5), ("nowhere", 1)] {
        let (resolver, lookup, clock) = resolver(true);
        let first = find(&resolver, name).await;
        clock.advance(Duration::from_secs(seconds) - Duration::from_millis(1));
        assert_eq!((find(&resolver, name).await, lookup.asked()), (first, 1));
        clock.advance(Duration::from_millis(1));
        find(&resolver, name).await.map(drop).unwrap_or_default();
        assert_eq!(lookup.asked(), 2, "{name}");
    }
}

#[tokio::test]
async fn addresses_are_not_looked_up() {
    let (resolver, lookup, _) = resolver(true);
    for address in ["127.0.0.1", "::1", "8.8.8.8"] {
        let found = find(&resolver, address).await.unwrap();
        assert_eq!(found[..], [address.parse::<IpAddr>().unwrap()]);
    }
    assert_eq!(lookup.asked(), 0);
}

#[tokio::test]
async fn a_name_is_asked_for_once_even_if_the_asker_goes_away() {
    let (resolver, lookup, _) = resolver(false);
    for _ in 0..3 {
        let mut asking = Box::pin(find(&resolver, "somewhere"));
        assert!(futures::poll!(&mut asking).is_pending());
        lookup.asked.subscribe().wait_for(|asked| *asked == 1).await.unwrap();
    }
    lookup.is_open.send_replace(true);
    find(&resolver, "somewhere").await.unwrap();
    assert_eq!(lookup.asked(), 1);
}

#[tokio::test]
async fn lookups_that_hang_are_bounded() {
    let (resolver, lookup, _) = resolver(false);
    let names: Vec<String> = (0..NAMES_MAX).map(|number| format!("name{number}")).collect();
    let mut asking: Vec<_> = names.iter().map(|name| Box::pin(find(&resolver, name))).collect();
    for one in &mut asking {
        assert!(futures::poll!(one).is_pending());
    }
    lookup.asked.subscribe().wait_for(|asked| *asked == LOOKUPS_MAX).await.unwrap();
    assert_eq!(find(&resolver, "one more").await, Err(NoAddress::Throttled));
    assert_eq!((lookup.asked(), resolver.names.lock().len()), (LOOKUPS_MAX, NAMES_MAX));

    lookup.is_open.send_replace(true);
    for one in asking {
        one.await.unwrap();
    }
}

#[tokio::test]
async fn old_names_make_room_for_new_ones() {
    let (resolver, _, clock) = resolver(true);
    for number in 0..NAMES_MAX {
        find(&resolver, &format!("name{number}")).await.unwrap();
    }
    clock.advance(FOUND_TIME);
    find(&resolver, "one more").await.unwrap();
    assert_eq!(resolver.names.lock().len(), 1);
}

#[test]
fn both_families_are_tried_in_turn() {
    let parse = |texts: &[&str]| -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    for (given, expected) in [
        (&["::1", "::2", "1.1.1.1", "::3"][..], &["::1", "1.1.1.1", "::2", "::3"][..]),
        (&["1.1.1.1", "2.2.2.2", "::1"], &["1.1.1.1", "::1", "2.2.2.2"]),
        (&["::1"], &["::1"]),
        (&[], &[]),
    ] {
        assert_eq!(interleaved(&parse(given)), parse(expected));
    }
}
