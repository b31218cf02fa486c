//! A client whose requests go through another client, which can be replaced while it is used.
//!
//! kube reads the certificate of a kubeconfig once, when it creates a client, so a renewed
//! certificate needs another client. With this one, the users of a client need not notice. Requests
//! that have started, watches among them, finish on the client that they started with.

use std::{
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use axum::http::{Request, Response};
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use tower::Service;

use crate::runtime::{leader::gate::Gate, metrics::Counted};

/// The current client. Clones share it.
#[derive(Clone)]
pub struct Switch(Arc<RwLock<Client>>);

impl Switch {
    /// Creates a switch that sends requests through `client`.
    pub fn new(client: Client) -> Self {
        Self(Arc::new(RwLock::new(client)))
    }

    /// Sends all later requests through `client`.
    pub fn set(&self, client: Client) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Creates a client that sends its requests through the current client of this switch. Its
    /// requests are counted, and its writes go through a gate.
    pub fn client(&self, counted: &Counted, gate: &Gate) -> Client {
        let namespace = self.current().default_namespace().to_owned();
        ClientBuilder::new(self.clone(), namespace)
            .with_layer(counted)
            .with_layer(gate)
            .build()
    }

    fn current(&self) -> Client {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Service<Request<Body>> for Switch {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.current();
        Box::pin(async move { client.send(request).await })
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::runtime::metrics::{Metrics, Space};

    /// Responds to every request with 403 and its own name.
    #[derive(Clone)]
    struct Named(&'static str);

    impl Service<Request<Body>> for Named {
        type Response = Response<Body>;
        type Error = kube::Error;
        type Future = std::future::Ready<Result<Response<Body>, kube::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let status = Status::failure(self.0, "Forbidden").with_code(403);
            let body = serde_json::to_vec(&status).unwrap();
            let answer = Response::builder().status(403).body(Body::from(body));
            std::future::ready(Ok(answer.unwrap()))
        }
    }

    fn named(name: &'static str) -> Client {
        ClientBuilder::new(Named(name), "default").build()
    }

    async fn asked(client: &Client) -> String {
        match client.apiserver_version().await {
            Err(kube::Error::Api(status)) => status.message,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_next_request_goes_through_the_client_that_was_set_last() {
        let switch = Switch::new(named("one"));
        let metrics = Metrics::default();
        let client = switch.client(&metrics.requests(Space::Its), &Gate::open());
        assert_eq!(asked(&client).await, "one");
        switch.set(named("two"));
        assert_eq!(asked(&client).await, "two");
        let counted = metrics.text();
        assert!(counted.contains("argosy_requests_total"), "{counted}");
    }
}
