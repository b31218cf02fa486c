//! The agent's own certificate: its first issue, its replacement, and the requests that are denied.

use std::fs;

use anyhow::{Context, Result};
use argosy_api::{
    ManagedCluster, ManifestWork,
    issued::{IssuedCertificate, certificates},
    names,
};
use argosy_tests::testenv::{
    Fixture, Member,
    objects::create,
    server::client_of,
    signing::{Asked, Signing, identity, kept_kubeconfig, workflows_with},
    waiting::until,
};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
        core::v1::Secret,
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, WatchParams},
};
use serde_json::json;

fn certificate(secret: &Secret) -> Vec<u8> {
    let data = secret.data.as_ref().and_then(|data| data.get("tls.crt"));
    data.map(|bytes| bytes.0.clone()).unwrap_or_default()
}

/// A cluster whose agent has a certificate, and the Secret with it.
async fn joined(signing: &Signing, fixture: &Fixture) -> Result<(Member, Secret)> {
    let mut member = signing.register(fixture, "own").await?;
    let bootstrap = signing.bootstrap(&member).await?;
    fixture
        .start_agent_with_certificate(&mut member, &bootstrap)
        .await?;
    // The bootstrap kubeconfig is not needed any more.
    fs::remove_file(bootstrap)?;
    let secret = until(
        &identity(fixture, &member),
        names::IDENTITY_SECRET,
        "it has a certificate",
        |secret| !certificate(secret).is_empty(),
    )
    .await?;
    Ok((member, secret))
}

/// Waits until another certificate than the one in `secret` is in use.
async fn replaced(fixture: &Fixture, member: &Member, secret: &Secret) -> Result<Secret> {
    let before = certificate(secret);
    until(
        &identity(fixture, member),
        names::IDENTITY_SECRET,
        "it has another certificate",
        |secret| certificate(secret) != before,
    )
    .await
}

async fn recorded(fixture: &Fixture, member: &Member, count: usize) -> Result<Vec<IssuedCertificate>> {
    let cluster: ManagedCluster = until(
        &fixture.clusters(),
        &member.cluster,
        "its certificates are recorded",
        |cluster| certificates(cluster).len() >= count,
    )
    .await?;
    Ok(certificates(&cluster))
}

#[tokio::test]
async fn an_agent_asks_for_its_certificate_and_a_workflow_runs_its_way() -> Result<()> {
    let signing = Signing::shared().await?;
    let fixture = Fixture::on(signing.env.clone(), "identity-first").await?;
    let (member, secret) = joined(&signing, &fixture).await?;
    fixture.round_trip("first", &member).await?;
    recorded(&fixture, &member, 1).await?;
    // The certificate identifies only the agent of its cluster.
    let workflows = workflows_with(&kept_kubeconfig(&secret)?, &fixture.namespace).await?;
    let refused = workflows
        .list(&ListParams::default())
        .await
        .err()
        .context("it may not")?;
    let user = names::agent_user(&member.cluster);
    assert!(refused.to_string().contains(&user), "{refused}");
    // After a restart, the agent uses its existing certificate: the bootstrap kubeconfig is gone.
    member.agent()?.restart().await?;
    fixture.round_trip("second", &member).await
}

#[tokio::test]
async fn a_certificate_is_replaced_when_somebody_wishes_it_and_before_its_end() -> Result<()> {
    let signing = Signing::shared().await?;
    let fixture = Fixture::on(signing.env.clone(), "identity-next").await?;
    let (member, first) = joined(&signing, &fixture).await?;
    let wish = Timestamp::now();
    let annotation =
        json!({ "metadata": { "annotations": { names::ROTATE_CERTIFICATE: wish.to_string() } } });
    let patch = Patch::Merge(annotation);
    fixture
        .clusters()
        .patch(&member.cluster, &PatchParams::default(), &patch)
        .await?;
    let second = replaced(&fixture, &member, &first).await?;
    let known = recorded(&fixture, &member, 2).await?;
    assert!(known.last().context("it is recorded")?.requested_at > wish - jiff::SignedDuration::from_secs(1));
    fixture.round_trip("between", &member).await?;
    // Certificates are signed for forty seconds here.
    replaced(&fixture, &member, &second).await?;
    fixture.round_trip("after", &member).await?;
    let metrics = member.agent()?.metrics().await?;
    let issued = metrics
        .lines()
        .find_map(|line| line.strip_prefix("argosy_agent_certificate_requests_total{outcome=\"issued\"} "));
    let issued: u32 = issued.context("it is counted")?.parse()?;
    assert!(issued >= 3, "{issued} were issued to one process");
    Ok(())
}

/// The content of a request made by hand.
struct Request<'a> {
    subject: String,
    further: &'a [&'a str],
    usages: &'a [&'a str],
    seconds: i32,
}

impl Request<'_> {
    /// The request that the agent of `member` would send.
    fn of(member: &Member) -> Self {
        Self {
            subject: format!(
                "/O={}/CN={}",
                names::AGENTS_GROUP,
                names::agent_user(&member.cluster)
            ),
            further: &[],
            usages: &["client auth", "digital signature"],
            seconds: 3600,
        }
    }
}

async fn ask(client: &Client, name: &str, request: &Request<'_>) -> Result<CertificateSigningRequest> {
    let asked = Asked::new(&request.subject, request.further)?;
    let mut object = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(asked.request),
            signer_name: names::CLIENT_SIGNER.to_owned(),
            usages: Some(request.usages.iter().map(|&usage| usage.to_owned()).collect()),
            expiration_seconds: Some(request.seconds),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    object.metadata.name = Some(name.to_owned());
    create(&Api::all(client.clone()), &object).await
}

/// Type and reason of a request's first condition.
fn said(request: &CertificateSigningRequest) -> Option<(&str, &str)> {
    let conditions = request.status.as_ref()?.conditions.as_ref()?;
    let first = conditions.first()?;
    Some((first.type_.as_str(), first.reason.as_deref().unwrap_or_default()))
}

/// Sends a request, and waits until it is denied for `reason`.
async fn denied(
    fixture: &Fixture,
    client: &Client,
    name: &str,
    request: &Request<'_>,
    reason: &str,
) -> Result<()> {
    let name = format!("{}-{name}", fixture.namespace);
    ask(client, &name, request).await?;
    let requests: Api<CertificateSigningRequest> = Api::all(fixture.control.clone());
    let decided = until(&requests, &name, "it is decided", |request| {
        said(request).is_some()
    })
    .await?;
    assert_eq!(said(&decided), Some(("Denied", reason)), "{name}");
    let certificate = decided.status.and_then(|status| status.certificate);
    assert!(certificate.is_none_or(|bytes| bytes.0.is_empty()), "{name}");
    Ok(())
}

#[tokio::test]
async fn nobody_gets_the_certificate_of_another_cluster() -> Result<()> {
    let signing = Signing::shared().await?;
    let fixture = Fixture::on(signing.env.clone(), "identity-other").await?;
    let (mine, secret) = joined(&signing, &fixture).await?;
    let theirs = signing.register(&fixture, "theirs").await?;
    let bootstrap = client_of(&signing.bootstrap(&mine).await?).await?;
    let agent = client_of(&kept_kubeconfig(&secret)?).await?;
    let foreign = Request::of(&theirs);
    denied(&fixture, &bootstrap, "token", &foreign, "ForeignRequester").await?;
    denied(&fixture, &agent, "certificate", &foreign, "ForeignRequester").await?;
    // Other users may not request a certificate for any agent.
    denied(&fixture, &fixture.control, "admin", &foreign, "ForeignRequester").await?;
    // The cluster's own bootstrap account may.
    let bootstrap = client_of(&signing.bootstrap(&theirs).await?).await?;
    let name = format!("{}-right", fixture.namespace);
    ask(&bootstrap, &name, &foreign).await?;
    let requests: Api<CertificateSigningRequest> = Api::all(fixture.control.clone());
    let decided = until(&requests, &name, "it is decided", |request| {
        said(request).is_some()
    })
    .await?;
    assert_eq!(said(&decided), Some(("Approved", "AgentJoins")));
    Ok(())
}

#[tokio::test]
async fn a_certificate_that_is_not_recorded_gets_no_successor() -> Result<()> {
    let signing = Signing::shared().await?;
    let fixture = Fixture::on(signing.env.clone(), "identity-forged").await?;
    let (member, _) = joined(&signing, &fixture).await?;
    // Signed by the right authority for the right name, as if it had been issued through another
    // channel or long ago.
    let forged = signing.forged(&Request::of(&member).subject)?;
    let client = client_of(&forged).await?;
    denied(
        &fixture,
        &client,
        "forged",
        &Request::of(&member),
        "UnknownCertificate",
    )
    .await
}

#[tokio::test]
async fn more_than_the_identity_of_one_agent_is_denied() -> Result<()> {
    let signing = Signing::shared().await?;
    let fixture = Fixture::on(signing.env.clone(), "identity-more").await?;
    let member = signing.register(&fixture, "own").await?;
    let client = client_of(&signing.bootstrap(&member).await?).await?;
    let right = || Request::of(&member);
    let with = |part: &str| Request {
        subject: format!("{part}{}", right().subject),
        ..right()
    };
    let names = ["-addext", "subjectAltName=DNS:kubernetes.default.svc"];
    let flawed = [
        (
            "names",
            Request {
                further: &names,
                ..right()
            },
        ),
        ("nodes", with("/O=system:nodes")),
        ("unit", with("/OU=argosy.dev:agents")),
        ("admin", with("/CN=kubernetes-admin")),
        (
            "usage",
            Request {
                usages: &["client auth"],
                ..right()
            },
        ),
    ];
    for (name, request) in &flawed {
        denied(&fixture, &client, name, request, "NotAnAgentsRequest").await?;
    }
    let long = Request {
        seconds: 8 * 24 * 3600,
        ..right()
    };
    denied(&fixture, &client, "long", &long, "LastsTooLong").await?;
    // The API server itself rejects this one.
    let masters = ask(&client, "masters", &with("/O=system:masters")).await;
    let refusal = format!("{:#}", masters.err().context("it is refused")?);
    assert!(refusal.contains("system:masters"), "{refusal}");
    let unaccepted = json!({ "spec": { "hubAcceptsClient": false } });
    let params = PatchParams::default();
    fixture
        .clusters()
        .patch(&member.cluster, &params, &Patch::Merge(unaccepted))
        .await?;
    denied(&fixture, &client, "unaccepted", &right(), "NotAccepted").await
}

#[tokio::test]
async fn who_may_ask_for_a_certificate_may_do_nothing_else() -> Result<()> {
    let signing = Signing::shared().await?;
    let fixture = Fixture::on(signing.env.clone(), "identity-rights").await?;
    let member = signing.register(&fixture, "own").await?;
    let client = client_of(&signing.bootstrap(&member).await?).await?;
    let params = ListParams::default();
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), &member.cluster);
    assert!(works.list(&params).await.is_err());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &member.cluster);
    assert!(secrets.list(&params).await.is_err());
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    assert!(clusters.get(&member.cluster).await.is_err());
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    assert!(requests.list(&params).await.is_err());
    assert!(requests.watch(&WatchParams::default(), "0").await.is_err());
    // The controller ignores a request that names no agent, and its sender cannot approve it.
    let other = Request {
        subject: "/CN=somebody".to_owned(),
        ..Request::of(&member)
    };
    let mine = ask(&client, "identity-rights-somebody", &other).await?;
    let approval = json!({ "status": { "conditions": [{ "type": "Approved", "status": "True" }] } });
    let patched = requests
        .patch_approval(&mine.name_any(), &PatchParams::default(), &Patch::Merge(approval))
        .await;
    assert!(patched.is_err());
    // This one is denied later, so the controller has already seen the first one.
    let foreign = Request {
        subject: "/CN=argosy.dev:agent:nobody".to_owned(),
        ..Request::of(&member)
    };
    denied(&fixture, &client, "nobody", &foreign, "NotAnAgentsRequest").await?;
    let left = Api::<CertificateSigningRequest>::all(fixture.control.clone())
        .get(&mine.name_any())
        .await?;
    assert_eq!(said(&left), None);
    Ok(())
}
