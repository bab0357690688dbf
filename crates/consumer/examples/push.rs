//! A consumer that is pushed to: keeps orders in SQLite, each one once.
//!
//! `cargo run -p postrider-consumer --example push`, and a subscription whose endpoint is
//! `http://localhost:8080/pubsub/push`.

use std::path::Path;

use postrider_consumer::effects::{Note, Sqlite};
use postrider_consumer::{
    Consumer, Failure, Handled, Handler, Known, Message, Outcome, Settings, push,
};

struct Orders(Sqlite);

impl Handler for Orders {
    type Event = serde_json::Value;

    fn decode(&self, message: &Message) -> Result<Self::Event, Failure> {
        serde_json::from_slice(&message.data)
            .map_err(|error| Failure::new("InvalidJson", error.to_string()))
    }

    async fn handle(&self, order: Self::Event, message: &Message) -> Handled {
        let kept = self.0.in_transaction(&Note::of(message, "orders"), move |sql| {
            sql.execute("CREATE TABLE IF NOT EXISTS orders (body TEXT)", [])?;
            Ok(sql.execute("INSERT INTO orders VALUES (?1)", [order.to_string()])?)
        });
        Outcome::from(kept.await).into()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let known = Known::with_policy("projects/p/subscriptions/billing", "projects/p/topics/dead");
    let sqlite = Sqlite::open(Path::new("orders.sqlite"))?;
    let consumer = Consumer::new(Orders(sqlite), Settings::new("orders", "1.0.0"), known)?;
    let server = push::Server::bind("127.0.0.1:8080").await?;
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    Ok(server.serve(consumer, push::Options::default(), stop).await?)
}
