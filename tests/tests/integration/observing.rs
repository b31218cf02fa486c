//! The view of an operator on controller and agent: traces, log lines, health, and counts of the
//! fleet.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    binaries::{Binary, WebhookSettings},
    collector::{Collector, Span},
    fake_argo,
    objects::{create, phase, workflow},
    proxy::Proxy,
    waiting::{PATIENCE, until},
};
use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, ResourceExt,
    api::DeleteParams,
    runtime::{
        WatchStreamExt,
        watcher::{self, watcher},
    },
};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

/// Runs a Workflow to its end and returns its UID.
async fn run(fixture: &Fixture, member: &Member, name: &str) -> Result<String> {
    let created = create(&fixture.workflows(), &workflow(name, &member.cluster)).await?;
    until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
    member.argo().start(name).await?;
    member.argo().finish(name, "Succeeded").await?;
    until(&fixture.workflows(), name, "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    until(&member.workflows(), name, "it is let go", |object| {
        object.finalizers().is_empty()
    })
    .await?;
    created.uid().context("it has a UID")
}

/// The metrics of a process, after `test` holds for them. Metrics cannot be watched.
async fn metrics_until(process: &Binary, what: &str, test: impl Fn(&str) -> bool) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = process.metrics().await?;
        if test(&told) {
            return Ok(told);
        }
        if Instant::now() > deadline {
            bail!("waited for metrics: {what}; there are {told}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn one_trace_holds_the_steps_of_controller_and_agent_for_a_workflow() -> Result<()> {
    let collector = Collector::open().await?;
    let variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint().to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "200".to_owned()),
    ];
    let env = TestEnv::own_observed("tracing", variables).await?;
    ensure!(
        !env.controller.log()?.contains("built without support for traces"),
        "this needs binaries with traces: cargo build --package argosy --bins --features otel"
    );
    let fixture = Fixture::on(Arc::clone(&env), "tracing").await?;
    let member = fixture.pull().await?;
    let uid = run(&fixture, &member, "traced").await?;
    let trace = uid.replace('-', "");
    let steps = [
        ("argosy-controller", "dispatch"),
        ("argosy-agent", "create"),
        ("argosy-agent", "argo start"),
        ("argosy-agent", "report"),
        ("argosy-controller", "mirror"),
    ];
    let of_trace = |spans: &[Span]| -> Vec<Span> {
        let own = spans.iter().filter(|span| span.trace == trace);
        own.cloned().collect()
    };
    let has = |spans: &[Span], (service, name): (&str, &str)| {
        let is_it = |span: &Span| span.service == service && span.name == name && !span.is_error;
        spans.iter().any(is_it)
    };
    let spans = collector
        .until("every step of the way", |spans| {
            let own = of_trace(spans);
            steps.iter().all(|step| has(&own, *step))
        })
        .await?;
    let spans = of_trace(&spans);
    let first: Vec<&Span> = spans.iter().filter(|span| span.parent.is_empty()).collect();
    ensure!(
        first.len() == 1 && first[0].name == "dispatch",
        "not one first span: {spans:#?}"
    );
    for span in &spans {
        let attribute = |name: &str| span.attributes.get(name).map(String::as_str);
        let place = [attribute("cluster"), attribute("namespace"), attribute("name")];
        assert_eq!(
            place,
            [Some(member.cluster.as_str()), Some("tracing"), Some("traced")]
        );
        assert_eq!(
            (attribute("uid"), attribute("attempt")),
            (Some(uid.as_str()), Some("1"))
        );
        assert!(span.start <= span.end, "{span:?}");
        assert!(span.id == first[0].id || span.parent == first[0].id, "{span:?}");
    }
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "a span was told twice");
    Ok(())
}

#[tokio::test]
async fn what_was_not_exported_yet_is_exported_when_the_process_ends() -> Result<()> {
    let collector = Collector::open().await?;
    let variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint().to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000".to_owned()),
    ];
    let env = TestEnv::own_observed("flushing", variables).await?;
    let fixture = Fixture::on(Arc::clone(&env), "flushing").await?;
    let member = fixture.pull().await?;
    let uid = run(&fixture, &member, "traced").await?;
    assert!(env.controller.terminate()?.success());
    assert!(member.agent()?.terminate()?.success());
    let trace = uid.replace('-', "");
    collector
        .until("those of both processes", |spans| {
            let own = spans.iter().filter(|span| span.trace == trace);
            let services: BTreeSet<&str> = own.map(|span| span.service.as_str()).collect();
            services == ["argosy-agent", "argosy-controller"].into()
        })
        .await?;
    Ok(())
}

/// Every line of a log, which must be JSON.
fn lines(log: &str) -> Result<Vec<Value>> {
    let lines = log.lines().map(|line| {
        let line: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        for field in ["timestamp", "level", "target", "message"] {
            ensure!(line[field].is_string(), "no {field}: {line}");
        }
        Ok(line)
    });
    lines.collect()
}

#[tokio::test]
async fn every_log_line_is_json_and_says_what_it_is_about() -> Result<()> {
    let variables = vec![
        ("ARGOSY_LOG_FORMAT", "json".to_owned()),
        ("ARGOSY_LOG", "argosy=debug".to_owned()),
    ];
    let env = TestEnv::own_observed("logging", variables).await?;
    let fixture = Fixture::on(Arc::clone(&env), "logging").await?;
    let member = fixture.pull().await?;
    let uid = run(&fixture, &member, "logged").await?;
    for (process, stage_of) in [(&env.controller, "dispatch"), (member.agent()?, "create")] {
        let lines = lines(&process.log()?)?;
        let started = |line: &&Value| line["message"] == "starting" && line["stage"] == stage_of;
        let line = lines.iter().find(started).context("no line about it")?;
        let expected = [
            ("kind", "Workflow"),
            ("cluster", &member.cluster),
            ("namespace", "logging"),
            ("name", "logged"),
            ("uid", &uid),
        ];
        for (field, value) in expected {
            assert_eq!(line[field], value, "{line}");
        }
        assert_eq!(line["attempt"], 1, "{line}");
    }
    let of_agent = lines(&member.agent()?.log()?)?;
    let mut other = of_agent
        .iter()
        .filter(|line| line["target"] != "argosy::runtime::shutdown");
    assert!(
        other.all(|line| line["cluster"] == member.cluster.as_str()),
        "a line of an agent does not name its cluster"
    );
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_hangs_is_no_reason_to_restart_who_is_alone() -> Result<()> {
    let alone = vec![("ARGOSY_LEADER_ELECT", "false".to_owned())];
    let fixture = Fixture::on(TestEnv::own_replicated("hanging", alone).await?, "hanging").await?;
    let proxy = Proxy::open(fixture.env.servers.wecs[0].kubeconfig()).await?;
    let member = fixture.join_pull_through("hung", proxy.kubeconfig(), 3).await?;
    let agent = member.agent()?;
    let (status, text) = agent.ask("/readyz?verbose").await?;
    assert_eq!(
        (status, text.as_str()),
        (200, "[+]objects ok\n[+]workflows ok\nreadyz check passed\n")
    );
    proxy.hang();
    fixture.submit("waiting", &member).await?;
    metrics_until(agent, "a request was given up", |text| {
        text.contains("argosy_failures_total{engine=\"agent_workflows\",reason=\"unreachable\"}")
            || text.contains("argosy_failures_total{engine=\"agent_workflows\",reason=\"missing\"}")
    })
    .await?;
    for path in ["/livez", "/healthz"] {
        assert_eq!(agent.ask(path).await?, (200, "ok".to_owned()), "{path}");
    }
    // Its cached state is sufficient to continue.
    assert_eq!(agent.ask("/readyz").await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn a_part_that_cannot_go_on_ends_the_process_and_is_named() -> Result<()> {
    // A separate environment, because another controller may register its webhook before it ends.
    let env = TestEnv::own("ended").await?;
    let webhook = WebhookSettings::new("30d")?;
    let _taken = std::net::TcpListener::bind(("127.0.0.1", webhook.port))?;
    let kubeconfig = env.control.kubeconfig();
    let started = Binary::controller(kubeconfig, "ended", Some(&webhook)).await;
    let error = started
        .err()
        .context("it goes on without its webhook")?
        .to_string();
    assert!(
        error.contains("a part of this process ended by itself") && error.contains("webhook"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn workflows_are_counted_by_cluster_and_phase_until_the_cluster_is_gone() -> Result<()> {
    let env = TestEnv::own_guarded("counting", "30d").await?;
    let fixture = Fixture::on(Arc::clone(&env), "counting").await?;
    let member = fixture.pull().await?;
    let (status, text) = env.controller.ask("/readyz?verbose").await?;
    let ready = "[+]leads ok\n[+]objects ok\n[+]webhook ok\n[+]workflows ok\nreadyz check passed\n";
    assert_eq!((status, text.as_str()), (200, ready));
    run(&fixture, &member, "counted").await?;
    let cluster = &member.cluster;
    let expected = [
        format!("argosy_workflows{{cluster=\"{cluster}\",phase=\"Succeeded\"}} 1\n"),
        format!("argosy_cluster_available{{cluster=\"{cluster}\"}} 1\n"),
        "argosy_clusters{state=\"available\"} 1\n".to_owned(),
        "argosy_notices_total{type=\"Normal\",reason=\"Dispatched\"} 1\n".to_owned(),
        "argosy_webhook_review_seconds_count{outcome=\"answered\"}".to_owned(),
    ];
    let has_all = |text: &str| expected.iter().all(|line| text.contains(line.as_str()));
    let text = metrics_until(&env.controller, "the Workflow is counted", has_all).await?;
    let ends = text
        .lines()
        .find_map(|line| line.strip_prefix("argosy_webhook_certificate_expiration_timestamp_seconds "))
        .context("the certificate's end is told")?;
    assert!(ends.parse::<u64>()? > 1_700_000_000, "{ends}");
    // Nothing must register the cluster again.
    member.agent()?.kill()?;
    fixture
        .clusters()
        .delete(cluster, &DeleteParams::default())
        .await?;
    let series = format!("cluster=\"{cluster}\"");
    metrics_until(&env.controller, "the cluster's series are gone", |text| {
        !text.contains(&series)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn events_tell_the_course_of_a_workflow() -> Result<()> {
    let fixture = Fixture::new("events").await?;
    let member = fixture.pull().await?;
    let uid = run(&fixture, &member, "told").await?;
    let api: Api<Event> = Api::namespaced(fixture.env.control.client().await?, &fixture.namespace);
    let is_of_it = |event: &Event| {
        let regarding = event.regarding.as_ref();
        regarding.is_some_and(|regarding| regarding.uid.as_ref() == Some(&uid))
    };
    let told = watcher(api, watcher::Config::default()).applied_objects();
    let told = told
        .try_filter(|event| std::future::ready(is_of_it(event)))
        .take(3);
    pin_mut!(told);
    let mut told: Vec<Event> = timeout(PATIENCE, told.try_collect())
        .await
        .context("waited for three Events")??;
    // A list sorts Events by name.
    told.sort_by(|one, other| one.event_time.cmp(&other.event_time));
    let line = |event: &Event| {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        format!(
            "{} {}: {}",
            text(&event.type_),
            text(&event.reason),
            text(&event.note)
        )
    };
    let cluster = &member.cluster;
    let expected = [
        format!("Normal Dispatched: sent to {cluster}, attempt 1"),
        format!("Normal Started: started on {cluster}, attempt 1"),
        format!("Normal Finished: Succeeded on {cluster}"),
    ];
    assert_eq!(told.iter().map(line).collect::<Vec<_>>(), expected);
    Ok(())
}

#[tokio::test]
async fn a_second_warning_of_the_same_reason_says_its_own_message() -> Result<()> {
    let fixture = Fixture::new("events-again").await?;
    let (member, other) = (fixture.pull().await?, fixture.push().await?);
    let created = create(&fixture.workflows(), &workflow("told", &member.cluster)).await?;
    let uid = created.uid().context("it has a UID")?;
    until(&member.workflows(), "told", "it is on the cluster", |_| true).await?;
    member.argo().start("told").await?;
    until(
        &fixture.workflows(),
        "told",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    for place in ["nowhere", &member.cluster, &other.cluster] {
        fake_argo::edit(&fixture.workflows(), "told", |workflow| {
            let label = names::KUBESTELLAR_CLUSTER_LABEL.to_owned();
            workflow.labels_mut().insert(label, place.to_owned());
        })
        .await?;
    }
    let api: Api<Event> = Api::namespaced(fixture.env.control.client().await?, &fixture.namespace);
    let is_it = |event: &Event| {
        let regarding = event.regarding.as_ref();
        regarding.is_some_and(|regarding| regarding.uid.as_ref() == Some(&uid))
            && event.reason.as_deref() == Some("Stays")
    };
    let told = watcher(api, watcher::Config::default()).applied_objects();
    let told = told.try_filter(|event| std::future::ready(is_it(event))).take(2);
    pin_mut!(told);
    let told: Vec<Event> = timeout(PATIENCE, told.try_collect())
        .await
        .context("waited for two Events")??;
    for wanted in ["select no cluster ", &format!("select {} ", other.cluster)] {
        let mut notes = told.iter().filter_map(|event| event.note.as_ref());
        assert!(notes.any(|note| note.contains(wanted)), "{wanted}: {told:?}");
    }
    Ok(())
}
