//! A network between client and server that a test can break: a small TCP proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use testkit::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Takes connections and passes on what comes, until the network breaks.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    network: Arc<Network>,
    _taking: JoinSet<()>,
}

struct Network {
    /// What is done to every connection. A connection that was cut stays so.
    weather: watch::Sender<Weather>,
    random: Mutex<Random>,
    cuts: AtomicU64,
}

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// It works.
    Fair,
    /// Everything takes a few milliseconds more, in pieces.
    Slow,
    /// Nothing gets through, either way; what is sent meanwhile comes when it is over.
    Partition,
    /// What clients send is lost, and with it everything behind it on that connection, for ever.
    LostRequests,
    /// The same of what the server sends: it goes on and on to nobody.
    LostAnswers,
    /// Connections are reset in the middle of whatever they carry.
    Resets,
}

pub(crate) const STORMS: [Weather; 5] = [
    Weather::Slow,
    Weather::Partition,
    Weather::LostRequests,
    Weather::LostAnswers,
    Weather::Resets,
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(Network {
            weather: watch::Sender::new(Weather::Fair),
            random: Mutex::new(Random::seeded(seed)),
            cuts: AtomicU64::new(0),
        });
        let mut taking = JoinSet::new();
        taking.spawn(take(listener, server, Arc::clone(&network)));
        Self { address, network, _taking: taking }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.network.weather.send_replace(weather);
    }

    /// How many connections were reset, or lost something.
    pub(crate) fn cuts(&self) -> u64 {
        self.network.cuts.load(Ordering::SeqCst)
    }
}

async fn take(listener: TcpListener, server: SocketAddr, network: Arc<Network>) {
    let mut lines = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let network = Arc::clone(&network);
        lines.spawn(async move {
            if let Ok(server) = TcpStream::connect(server).await {
                carry(client, server, &network).await;
            }
        });
    }
}

async fn carry(client: TcpStream, server: TcpStream, network: &Network) {
    // A reset, and not a polite end, whenever one side is dropped.
    client.set_zero_linger().unwrap();
    server.set_zero_linger().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whichever way breaks first takes the other along.
    tokio::select! {
        () = pass(from_client, to_server, Way::ToServer, network) => {}
        () = pass(from_server, to_client, Way::ToClient, network) => {}
    }
}

/// Until one side has ended, or the network ends the connection.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Way, network: &Network) {
    let mut weather = network.weather.subscribe();
    let mut bytes = vec![0; 16 << 10];
    let mut is_lost = false;
    loop {
        let Ok(read @ 1..) = from.read(&mut bytes).await else { return };
        if weather.wait_for(|weather| *weather != Weather::Partition).await.is_err() {
            return;
        }
        let (now, chance) = (*weather.borrow(), network.random.lock().below(100));
        match (now, way) {
            (Weather::LostRequests, Way::ToServer) | (Weather::LostAnswers, Way::ToClient)
                if chance < 30 =>
            {
                is_lost = true;
            }
            (Weather::Resets, _) if chance < 10 => {
                network.cuts.fetch_add(1, Ordering::SeqCst);
                // In the middle of a frame.
                drop(to.write_all(&bytes[..read / 2]).await);
                return;
            }
            (Weather::Slow, _) => tokio::time::sleep(Duration::from_millis(chance / 5)).await,
            _ => {}
        }
        if is_lost {
            network.cuts.fetch_add(1, Ordering::SeqCst);
            // Half-open: what comes is swallowed for as long as both sides believe in it.
            while let Ok(1..) = from.read(&mut bytes).await {}
            return;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
