//! A consumer that pulls: keeps orders in SQLite, each one once.
//!
//! `cargo run -p postrider-consumer --example pull -- projects/p/subscriptions/billing`

use std::path::Path;

use postrider_consumer::effects::{Note, Sqlite};
use postrider_consumer::{
    Connection, Consumer, Failure, Handled, Handler, Message, Outcome, Settings, pull,
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
    let connection = Connection::open("http://localhost:8085")?;
    let known = connection.ask(&std::env::args().nth(1).ok_or("name a subscription")?).await?;
    let sqlite = Sqlite::open(Path::new("orders.sqlite"))?;
    let consumer = Consumer::new(Orders(sqlite), Settings::new("orders", "1.0.0"), known)?;
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    Ok(pull::run(connection, consumer, pull::Options::default(), stop).await?)
}
