//! The answer to the question if the agent of a cluster can be asked: that of the agent itself.
//!
//! `argosy doctor` asks it through the API server, by `nodes/proxy`, as it asks for Events. Not here:
//! the check of the request (`admit`).

use axum::{
    Extension,
    body::Body,
    extract::{Path, State},
    http::{self, Response, StatusCode},
    response::IntoResponse,
};

use super::{
    Reach,
    account::Account,
    admit::{Endpoint, Refusal},
};

/// Answers `GET /tunnel/CLUSTER`.
pub(super) async fn answer<R: Reach>(
    State(endpoint): State<Endpoint<R>>,
    Extension(account): Extension<Account>,
    Path(cluster): Path<String>,
) -> Response<Body> {
    let asked = endpoint.ask_agent(&account, &cluster).await;
    endpoint.answered(asked.map(|()| "ok".into_response()))
}

impl<R: Reach> Endpoint<R> {
    async fn ask_agent(&self, account: &Account, cluster: &str) -> Result<(), Refusal> {
        let admitted = self.admit_cluster(account, cluster).await?;
        match admitted
            .ask(http::Request::get("/healthz").body(Body::empty()))
            .await
        {
            // An agent of an earlier release has no such path. It answers, too.
            Ok(_)
            | Err(Refusal::Agent {
                status: StatusCode::FORBIDDEN,
                ..
            }) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }
}
