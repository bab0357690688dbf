//! Random histories of registry and index together, against a list of what should be there.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::live::{Ended, Handle, Registry, Request, Settings, Spec};
use domain::matching::{Index, Scratch, Subject};
use domain::{Moment, Now};
use testkit::{Random, seed};

use crate::generate::Sent;
use crate::registry::{at, request};

const LAG: Duration = Duration::from_millis(1_500);
const FILTERS: [&str; 4] = ["", "data.a == 1", "data.a > 0 && data.b == 'x'", "has(data.c)"];

struct Known {
    gateway: usize,
    ttl_s: u64,
    renewed: Moment,
    handle: Handle,
    filter: usize,
    tenant: usize,
}

/// Registry, index and what is known of them.
struct World {
    registry: Registry,
    index: Index,
    known: BTreeMap<String, Known>,
    streams: [u32; 3],
    now: Now,
}

impl World {
    fn is_over(&self, known: &Known, now: Moment) -> bool {
        self.streams[known.gateway] == 0
            && known.renewed.plus(Duration::from_secs(known.ttl_s)) <= now
    }

    fn take_out(&mut self, ended: &[Ended]) {
        for ended in ended {
            assert!(self.index.remove(ended.handle.0, ended.group.unwrap()));
            let known = self.known.remove(&*ended.id).expect("ended twice");
            assert_eq!(known.handle, ended.handle);
            let deadline = known.renewed.plus(Duration::from_secs(known.ttl_s));
            assert!(!ended.expired || deadline <= self.now.moment, "{} is early", ended.id);
        }
    }

    /// Time passes, and what is due is done within half a second of its wake-up.
    fn pass(&mut self, random: &mut Random) {
        let to = at(self.now.moment.0 / 1_000 + random.index(40_000) as u64);
        while let Some(wake) = self.registry.next_wake().filter(|wake| *wake <= to.moment) {
            self.now.moment = wake.max(self.now.moment);
            let ended = self.registry.expire(wake, 3);
            self.take_out(&ended);
        }
        self.now = to;
        for (id, known) in &self.known {
            let deadline = known.renewed.plus(Duration::from_secs(known.ttl_s));
            let late = self.streams[known.gateway] == 0 && deadline.plus(LAG) < self.now.moment;
            assert!(!late, "{id} should have expired");
        }
    }

    fn register(&mut self, random: &mut Random) {
        let (id, gateway) = (random.index(40).to_string(), random.index(3));
        let (filter, tenant, ttl_s) = (random.index(4), random.index(2), 60 + random.index(60));
        let spec = Request {
            tenant: tenant.to_string(),
            filter: Some(FILTERS[filter].to_owned()),
            ttl_s: Some(i64::try_from(ttl_s).unwrap()),
            ..request(&gateway.to_string(), &id)
        };
        let spec = Spec::new(spec, self.registry.settings()).unwrap();
        let before = self.known.get(&id).filter(|known| !self.is_over(known, self.now.moment));
        let same = before.map(|known| {
            (known.gateway == gateway, known.filter == filter && known.tenant == tenant)
        });
        let expected = match same {
            Some((false, _)) => "NOT_OWNER",
            Some((true, false)) => "SUBSCRIPTION_EXISTS",
            Some((true, true)) | None => "ok",
        };
        match self.registry.register(self.now, &spec) {
            Err(refusal) => assert_eq!(refusal.code(), expected),
            Ok(registered) => {
                assert_eq!((expected, registered.renewed), ("ok", same.is_some()));
                self.take_out(registered.ended.as_slice());
                if !registered.renewed {
                    let (handle, scope) = (registered.handle, &registered.scope);
                    let placed = self.index.insert(handle.0, scope, spec.filter()).unwrap();
                    self.registry.place(handle, placed.group, placed.indexed);
                }
                let (ttl_s, renewed) = (ttl_s as u64, self.now.moment);
                let handle = registered.handle;
                let known = Known { gateway, ttl_s, renewed, handle, filter, tenant };
                self.known.insert(id, known);
            }
        }
    }

    fn heartbeat(&mut self, random: &mut Random) {
        let (id, gateway) = (random.index(40).to_string(), random.index(3));
        let answer = self.registry.heartbeat(self.now, &id, Some(&gateway.to_string()));
        let over = self.known.get(&id).map(|known| self.is_over(known, self.now.moment));
        match (self.known.get_mut(&id), answer) {
            (Some(known), Ok(expires)) => {
                assert!(over == Some(false) && known.gateway == gateway);
                assert_eq!(expires.since(self.now.wall).as_secs(), known.ttl_s);
                known.renewed = self.now.moment;
            }
            (Some(known), Err(refusal)) => {
                let expected =
                    if over == Some(true) { "SUBSCRIPTION_EXPIRED" } else { "NOT_OWNER" };
                assert_eq!(refusal.code(), expected);
                assert!(over == Some(true) || known.gateway != gateway);
            }
            (None, answer) => assert!(answer.is_err()),
        }
    }

    fn stream(&mut self, random: &mut Random) {
        let gateway = random.index(3);
        let name = gateway.to_string();
        let open = random.one_in(2);
        if !open && self.streams[gateway] == 0 {
            return;
        }
        if open {
            let ended = self.registry.open_stream(self.now, &name);
            self.take_out(&ended);
            self.streams[gateway] += 1;
        } else {
            self.registry.close_stream(self.now, &name);
            self.streams[gateway] -= 1;
        }
        self.renew_all(gateway);
    }

    fn renew_all(&mut self, gateway: usize) {
        for known in self.known.values_mut().filter(|known| known.gateway == gateway) {
            known.renewed = self.now.moment;
        }
    }

    fn remove(&mut self, random: &mut Random) {
        if random.one_in(4) {
            let ended = self.registry.close_gateway(&random.index(3).to_string());
            self.take_out(&ended);
        } else {
            let ended = self.registry.delete(&random.index(40).to_string(), None).unwrap();
            self.take_out(ended.as_slice());
        }
    }

    fn check(&self) {
        assert_eq!(self.registry.counts().total, self.known.len());
        assert_eq!(self.index.len(), self.known.len());
        let sent = Sent { attributes: BTreeMap::new(), data: br#"{"a":1,"b":"x"}"#.to_vec() };
        let (record, mut scratch) = (sent.body(), Scratch::default());
        for tenant in 0..2 {
            let mut out = Vec::new();
            let (tenant_name, subject) = (tenant.to_string(), Subject::of(&record).unwrap());
            let collection = "rooms/room-1/messages";
            self.index.matches(&tenant_name, collection, subject, &mut scratch, &mut out).unwrap();
            let mut found: Vec<_> = out
                .iter()
                .map(|handle| self.registry.resolve(Handle(*handle)).unwrap().id)
                .collect();
            found.sort_unstable();
            let wanted = |known: &Known| known.tenant == tenant && known.filter != 3;
            let expected = self.known.iter().filter(|(_, known)| wanted(known));
            let mut expected: Vec<_> = expected.map(|(id, _)| id.as_str()).collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn registry_and_index_agree_with_what_should_be_there() {
    for seed in seed::seeds(0..60) {
        seed::tell(seed);
        let mut random = Random::seeded(seed);
        let mut world = World {
            registry: Registry::new(Settings::default()),
            index: Index::default(),
            known: BTreeMap::new(),
            streams: [0; 3],
            now: at(random.index(5_000) as u64),
        };
        for _ in 0..300 {
            match random.index(12) {
                0..=4 => world.register(&mut random),
                5 | 6 => world.heartbeat(&mut random),
                7 => world.stream(&mut random),
                8 => {
                    // As a call of its own it renews only what is not past its deadline.
                    let gateway = random.index(3);
                    let over: Vec<String> = world
                        .known
                        .iter()
                        .filter(|(_, known)| world.is_over(known, world.now.moment))
                        .map(|(id, _)| id.clone())
                        .collect();
                    world.registry.heartbeat_gateway(world.now, &gateway.to_string());
                    for (id, known) in &mut world.known {
                        if known.gateway == gateway && !over.contains(id) {
                            known.renewed = world.now.moment;
                        }
                    }
                }
                9 => world.remove(&mut random),
                _ => world.pass(&mut random),
            }
            world.check();
        }
    }
}
