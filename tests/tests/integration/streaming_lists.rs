//! Long lists as events of a watch, from API servers that have streaming lists and from those that do
//! not.

use anyhow::{Context, Result, ensure};
use argosy::runtime::{
    client,
    leader::gate::Gate,
    lenient::Lenient,
    metrics::{Metrics, Space},
    watch::{follow, streaming},
};
use argosy_core::Change;
use argosy_tests::testenv::{Fixture, objects::create_namespace, server::Server, waiting::PATIENCE};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{GetParams, PostParams, Request},
    core::ObjectMeta,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// More objects than a page has.
const MANY: usize = 300;

/// Lists of the ConfigMaps of all namespaces, as the API server has counted them.
#[derive(Debug)]
struct Lists {
    streamed: usize,
    refused: usize,
}

/// Follows the ConfigMaps of `server` from a list to one more.
async fn follow_many(server: &Server) -> Result<Lists> {
    let client = server.client().await?;
    create_namespace(&client, "many").await?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "many");
    let create = async |name: String| {
        let metadata = ObjectMeta {
            name: Some(name),
            labels: Some([("app".to_owned(), "many".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let object = ConfigMap {
            metadata,
            ..ConfigMap::default()
        };
        api.create(&PostParams::default(), &object).await
    };
    let names = (0..MANY).map(|number| format!("n{number}"));
    stream::iter(names)
        .map(&create)
        .buffer_unordered(8)
        .try_collect::<Vec<_>>()
        .await?;

    let (mut inputs, _watches) = watch(server).await?;
    let listed = next_list(&mut inputs).await?;
    ensure!(listed.len() == MANY, "{} are listed", listed.len());
    create("one-more".to_owned()).await?;
    let next = timeout(PATIENCE, inputs.recv()).await.context("one more")?;
    let Some(Change::Apply(one_more)) = next else {
        anyhow::bail!("the next input is not an object: {next:?}");
    };
    ensure!(one_more.name_any() == "one-more", "{}", one_more.name_any());

    let metrics = client
        .request_text(Request::new("").get("metrics", &GetParams::default())?)
        .await?;
    let of_configmaps = "resource=\"configmaps\"";
    Ok(Lists {
        streamed: count(
            &metrics,
            "apiserver_watch_list_duration_seconds_count",
            &[of_configmaps, "scope=\"cluster\""],
        )?,
        refused: count(
            &metrics,
            "apiserver_request_total",
            &[of_configmaps, "scope=\"cluster\"", "code=\"422\""],
        )?,
    })
}

/// Begins to follow the ConfigMaps of `server`, until the set is dropped.
async fn watch(server: &Server) -> Result<(mpsc::Receiver<Change<ConfigMap>>, JoinSet<()>)> {
    let counted = Metrics::default().requests(Space::Wds);
    let client = client::connect_nearby(Some(server.kubeconfig()), counted, &Gate::open()).await?;
    let (sender, inputs) = mpsc::channel(8);
    let mut watches = JoinSet::new();
    watches.spawn(follow(
        Api::<Lenient<ConfigMap>>::all(client),
        streaming("app=many"),
        sender,
        |change| change,
        |_| None,
    ));
    Ok((inputs, watches))
}

/// Receives a list, which has to be the next input.
async fn next_list(inputs: &mut mpsc::Receiver<Change<ConfigMap>>) -> Result<Vec<ConfigMap>> {
    match timeout(PATIENCE, inputs.recv()).await.context("no list")? {
        Some(Change::Reset(listed)) => Ok(listed),
        other => anyhow::bail!("the next input is not a list: {other:?}"),
    }
}

/// Sums a metric in the series with all of these labels.
fn count(metrics: &str, name: &str, labels: &[&str]) -> Result<usize> {
    metrics
        .lines()
        .filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)))
        .map(|line| Ok(line.rsplit(' ').next().context("a value")?.parse::<usize>()?))
        .sum()
}

#[tokio::test]
async fn a_long_list_is_received_as_events_of_the_watch() -> Result<()> {
    let fixture = Fixture::new("streamed").await?;
    let server = Server::start(&fixture.env.servers.store, &fixture.namespace).await?;
    let lists = follow_many(&server).await?;
    ensure!(lists.streamed > 0 && lists.refused == 0, "{lists:?}");
    Ok(())
}

#[tokio::test]
async fn an_api_server_without_streaming_lists_is_asked_for_pages() -> Result<()> {
    let fixture = Fixture::new("paged").await?;
    let store = &fixture.env.servers.store;
    let server = Server::start_without_streaming_lists(store, &fixture.namespace).await?;
    let lists = follow_many(&server).await?;
    ensure!(lists.streamed == 0 && lists.refused > 0, "{lists:?}");
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_comes_back_without_streaming_lists_is_asked_for_pages() -> Result<()> {
    let fixture = Fixture::new("downgraded").await?;
    let server = Server::start(&fixture.env.servers.store, &fixture.namespace).await?;
    let client = server.client().await?;
    let (mut inputs, _watches) = watch(&server).await?;
    ensure!(next_list(&mut inputs).await?.is_empty());
    // The caches of the next API server begin with a later version than that of the watch.
    create_namespace(&client, "later").await?;
    server.kill()?;
    server.start_again_without_streaming_lists().await?;
    ensure!(next_list(&mut inputs).await?.is_empty());
    Ok(())
}
