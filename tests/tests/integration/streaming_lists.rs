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

/// Follows the ConfigMaps of `server` from a list to one more. Returns the number of streaming lists of
/// ConfigMaps that the API server has counted.
async fn follow_many(server: &Server) -> Result<usize> {
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

    let counted = Metrics::default().requests(Space::Wds);
    let loop_client = client::connect_nearby(Some(server.kubeconfig()), counted, &Gate::open()).await?;
    let (sender, mut inputs) = mpsc::channel(8);
    let mut watches = JoinSet::new();
    watches.spawn(follow(
        Api::<Lenient<ConfigMap>>::all(loop_client),
        streaming("app=many"),
        sender,
        |change| change,
        |_| None,
    ));
    let first = timeout(PATIENCE, inputs.recv()).await.context("the list")?;
    let Some(Change::Reset(listed)) = first else {
        anyhow::bail!("the first input is not a list: {first:?}");
    };
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
    let mut lists = metrics.lines().filter(|line| {
        line.starts_with("apiserver_watch_list_duration_seconds_count")
            && line.contains("configmaps")
            && line.contains("scope=\"cluster\"")
    });
    let Some(count) = lists.next() else { return Ok(0) };
    let count = count.rsplit(' ').next().context("a count")?;
    Ok(count.parse()?)
}

#[tokio::test]
async fn a_long_list_is_received_as_events_of_the_watch() -> Result<()> {
    let fixture = Fixture::new("streamed").await?;
    let server = Server::start(&fixture.env.servers.store, &fixture.namespace).await?;
    let streamed = follow_many(&server).await?;
    ensure!(streamed > 0, "the API server has counted no streaming list");
    Ok(())
}

#[tokio::test]
async fn an_api_server_without_streaming_lists_is_asked_for_pages() -> Result<()> {
    let fixture = Fixture::new("paged").await?;
    let store = &fixture.env.servers.store;
    let server = Server::start_without_streaming_lists(store, &fixture.namespace).await?;
    let streamed = follow_many(&server).await?;
    ensure!(streamed == 0, "{streamed} streaming lists");
    Ok(())
}
