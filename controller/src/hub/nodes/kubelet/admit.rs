//! The check of a request about a pod on another cluster, and the way to the agent of that cluster.
//!
//! The shadow pod is read from the API server for each request, so nothing is remembered that could
//! be outdated. Not here: the check of the agent that the pod belongs to a run, and the limits
//! (`places`).

use std::time::Duration;

use argosy_api::{Workflow, names};
use argosy_core::{ClusterName, Failure, model::claim::Claim};
use axum::{
    body::Body,
    http::{self, HeaderValue, Request, Response, StatusCode},
    response::IntoResponse,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    core::{ObjectMeta, PartialObjectMeta},
};
use tokio::time::timeout;
use tower::ServiceExt;

use super::{
    Reach,
    account::Account,
    authorize::Reviews,
    places::{Full, Place, Places},
};
use crate::runtime::{
    lenient::Lenient,
    metrics::KubeletMetrics,
    requests::{read, with_sources},
    tunnel::{Agent, ORIGIN_HEADER},
};

/// Time for the beginning of an agent's answer.
pub(super) const ANSWER: Duration = Duration::from_secs(20);

/// Maximum bytes of an agent's error that are passed on.
const LONGEST_ERROR: usize = 4 << 10;

/// True if this can be the name of an object or container: a subdomain of RFC 1123.
pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&text.len()) && text.bytes().all(is_inner) && !text.starts_with('.')
}

/// Everything that an answer needs.
#[derive(Clone)]
pub(super) struct Endpoint<R> {
    wds: Client,
    reach: R,
    reviews: Reviews,
    pub(super) metrics: KubeletMetrics,
    /// True if sessions are allowed.
    pub(super) exec: bool,
    places: Places,
}

impl<R: Reach> Endpoint<R> {
    pub(super) fn new(wds: Client, reach: R, exec: bool, metrics: KubeletMetrics) -> Self {
        Self {
            reviews: Reviews::new(wds.clone()),
            wds,
            reach,
            metrics,
            exec,
            places: Places::default(),
        }
    }
}

/// Reason that a request is refused, as a user reads it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("this is not a request about a container that a kubelet knows")]
    Malformed,
    #[error("there is no shadow pod {0}")]
    Unknown(String),
    #[error("there is no Workflow {0} that was sent to a cluster")]
    NotSent(String),
    #[error("the account {user} may not use nodes/proxy of {node}")]
    Forbidden { user: String, node: String },
    #[error(
        "on other clusters, only logs are read: the administrator allows exec, attach and port-forward with the chart value nodes.exec"
    )]
    NoSessions,
    #[error("{0}")]
    Busy(#[from] Full),
    #[error("{0}")]
    TooManyStreams(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("{message}")]
    Agent { status: StatusCode, message: String },
}

impl Refusal {
    /// The status of the answer. An API server passes on the text only with 400, 403 and 500
    /// (`GenericHttpResponseChecker` in `apiserver/pkg/registry/generic/rest`).
    fn status(&self) -> StatusCode {
        match self {
            Self::Malformed | Self::Unknown(_) | Self::NotSent(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden { .. } | Self::NoSessions => StatusCode::FORBIDDEN,
            Self::Agent { status, .. } if status.is_client_error() => StatusCode::BAD_REQUEST,
            Self::Busy(_) | Self::TooManyStreams(_) | Self::Unavailable(_) | Self::Agent { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    /// The label of the metric.
    fn outcome(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown(_) | Self::NotSent(_) => "unknown",
            Self::Forbidden { .. } | Self::NoSessions => "forbidden",
            Self::Busy(_) | Self::TooManyStreams(_) => "busy",
            Self::Unavailable(_) => "unavailable",
            Self::Agent { .. } => "refused_by_agent",
        }
    }
}

/// A request that was checked, and the way to the agent.
pub(super) struct Admitted {
    pub(super) shown: Shown,
    agent: Agent,
    /// The place of the stream, held until its end.
    pub(super) place: Place,
}

impl<R: Reach> Endpoint<R> {
    /// Checks that `account` may use the kubelet with `verb`, and that the pod is a shadow pod.
    pub(super) async fn admit(
        &self,
        account: &Account,
        verb: &'static str,
        namespace: &str,
        pod: &str,
    ) -> Result<Admitted, Refusal> {
        let shown = async {
            self.authorized(account, verb, None).await?;
            self.shown(namespace, pod).await
        };
        self.admitted(account, verb, (namespace, pod), shown).await
    }

    /// Checks that `account` may use the kubelet, and that the Workflow was sent to a cluster.
    pub(super) async fn admit_run(
        &self,
        account: &Account,
        namespace: &str,
        workflow: &str,
    ) -> Result<Admitted, Refusal> {
        let sent = async {
            self.authorized(account, "get", None).await?;
            self.sent(namespace, workflow).await
        };
        self.admitted(account, "get", (namespace, workflow), sent).await
    }

    /// Checks that `account` may use the kubelet of the virtual Node of a cluster.
    pub(super) async fn admit_cluster(&self, account: &Account, cluster: &str) -> Result<Admitted, Refusal> {
        let shown = Shown {
            cluster: cluster.into(),
            node: names::virtual_node(cluster),
            origin: String::new(),
        };
        self.admitted(account, "get", (cluster, cluster), async { Ok(shown) })
            .await
    }

    async fn admitted(
        &self,
        account: &Account,
        verb: &'static str,
        (namespace, name): (&str, &str),
        looked_up: impl Future<Output = Result<Shown, Refusal>>,
    ) -> Result<Admitted, Refusal> {
        if !is_name(namespace) || !is_name(name) {
            return Err(Refusal::Malformed);
        }
        let check = self.places.check(account)?;
        let shown = looked_up.await?;
        self.authorized(account, verb, Some(&shown.node)).await?;
        drop(check);
        let agent = self.reach.agent(&shown.cluster);
        Ok(Admitted {
            agent: agent.map_err(|away| Refusal::Unavailable(away.to_string()))?,
            place: self.places.take(&shown.cluster, namespace)?,
            shown,
        })
    }

    /// Checks that `account` may use the kubelet of `node`. Before its name is read from a pod or a
    /// Workflow, the account must have the right for every Node: the answer to another one would tell
    /// which of these exist.
    async fn authorized(
        &self,
        account: &Account,
        verb: &'static str,
        node: Option<&str>,
    ) -> Result<(), Refusal> {
        let may = self.reviews.may(account, verb, node).await;
        if may.map_err(|failure| Refusal::Unavailable(failure.to_string()))? {
            return Ok(());
        }
        Err(Refusal::Forbidden {
            user: account.user.clone(),
            node: node.unwrap_or("virtual Nodes").to_owned(),
        })
    }

    /// The answer, counted.
    pub(super) fn answered(&self, opened: Result<Response<Body>, Refusal>) -> Response<Body> {
        match opened {
            Ok(response) => {
                self.metrics.answered("opened");
                response
            }
            Err(refusal) => {
                self.metrics.answered(refusal.outcome());
                (refusal.status(), refusal.to_string()).into_response()
            }
        }
    }

    /// Reads the shadow pod of a request.
    async fn shown(&self, namespace: &str, name: &str) -> Result<Shown, Refusal> {
        let unknown = || Refusal::Unknown(format!("{namespace}/{name}"));
        let pods: Api<Lenient<Pod>> = Api::namespaced(self.wds.clone(), namespace);
        let pod = read(pods.get(name)).await.map_err(|failure| match failure {
            Failure::NotFound { .. } => unknown(),
            failure => Refusal::Unavailable(failure.to_string()),
        })?;
        Shown::of(&pod).ok_or_else(unknown)
    }

    /// Reads the claim of the Workflow of a request.
    async fn sent(&self, namespace: &str, name: &str) -> Result<Shown, Refusal> {
        let unknown = || Refusal::NotSent(format!("{namespace}/{name}"));
        let api: Api<Lenient<PartialObjectMeta<Workflow>>> = Api::namespaced(self.wds.clone(), namespace);
        let workflow = read(api.get(name)).await.map_err(|failure| match failure {
            Failure::NotFound { .. } => unknown(),
            failure => Refusal::Unavailable(failure.to_string()),
        })?;
        Shown::sent(&workflow.metadata).ok_or_else(unknown)
    }
}

impl Admitted {
    /// Sends a request to the agent. The answer is a success.
    pub(super) async fn ask(
        &self,
        request: Result<Request<Body>, http::Error>,
    ) -> Result<Response<Body>, Refusal> {
        let mut request = request.map_err(|_| Refusal::Malformed)?;
        let origin = HeaderValue::try_from(&self.shown.origin).map_err(|_| Refusal::Malformed)?;
        request.headers_mut().insert(ORIGIN_HEADER, origin);
        let cluster = &self.shown.cluster;
        let asked = timeout(ANSWER, self.agent.clone().oneshot(request))
            .await
            .map_err(|_| {
                let text = format!("cluster {cluster} did not answer within {} s", ANSWER.as_secs());
                Refusal::Unavailable(text)
            })?;
        let response = asked.map_err(|error| {
            let text = with_sources(error.as_ref());
            if text.contains("requests to this cluster are in progress") {
                Refusal::TooManyStreams(text)
            } else {
                Refusal::Unavailable(format!("cluster {cluster} cannot be asked: {text}"))
            }
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(Refusal::Agent {
            status: response.status(),
            message: text_of(response.into_body()).await,
        })
    }
}

/// The text of an agent's error, shortened.
async fn text_of(body: Body) -> String {
    let read = timeout(ANSWER, axum::body::to_bytes(body, LONGEST_ERROR)).await;
    let text = read.ok().and_then(Result::ok).unwrap_or_default();
    match serde_json::from_slice::<kube::core::Status>(&text) {
        Ok(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(&text).trim().to_owned(),
    }
}

/// A pod on another cluster, as its shadow pod names it; or a run, as its Workflow names it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) cluster: ClusterName,
    node: String,
    /// UID of the Workflow that it belongs to; empty for a request that is about no run.
    origin: String,
}

impl Shown {
    /// Reads a shadow pod; `None` if it is another pod.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let origin = pod.labels().get(names::SHADOW_OF_LABEL)?.clone();
        let node = pod.spec.as_ref()?.node_name.clone()?;
        let cluster = node.strip_prefix(names::NODE_PREFIX)?.into();
        Some(Self {
            cluster,
            node,
            origin,
        })
    }

    /// Reads the claim of a Workflow; `None` if it has no run on one cluster.
    pub(super) fn sent(workflow: &ObjectMeta) -> Option<Self> {
        let claim = Claim::of(workflow).filter(|claim| !claim.is_for_every_cluster())?;
        Some(Self {
            node: names::virtual_node(claim.cluster.as_str()),
            cluster: claim.cluster,
            origin: workflow.uid.clone()?,
        })
    }
}
