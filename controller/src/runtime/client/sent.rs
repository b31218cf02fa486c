//! The requests of a client as a server receives them, for tests of its layers.

use kube::{Client, Config};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
};

use super::build;
use crate::runtime::{leader::gate::Gate, metrics::Counted, telemetry};

/// The first line that `ask` sends with a client, which gets no answer.
pub(super) async fn first_line(through: Option<(Counted, &Gate)>, ask: impl AsyncFnOnce(Client)) -> String {
    telemetry::install_crypto();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = build(Config::new(url.parse().unwrap()), through).unwrap();
    let receiving = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.unwrap();
        line
    };
    tokio::select! {
        line = receiving => line,
        () = ask(client) => panic!("the request has ended before it was received"),
    }
}
