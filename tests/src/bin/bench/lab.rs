//! Measuring on servers of its own: control cluster and one WEC, the agent in a process of its own (pull).

use std::sync::Arc;

use anyhow::Result;
use argosy_api::Workflow;
use argosy_tests::lab::{
    Argo, Scene, Stage,
    objects::{self, create, create_namespace, phase},
    stage::Servers,
    store::Durability,
};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;

use crate::{floor, samples::Row, tower::Tower};

/// The namespace that nobody but the floor looks at.
const FLOOR: &str = "floor";

/// Both ends of one namespace.
struct Ends {
    control: Api<Workflow>,
    wec: Api<Workflow>,
    control_tower: Tower,
    wec_tower: Tower,
}

impl Ends {
    async fn build(control: &Client, wec: &Client, namespace: &str) -> Result<Self> {
        let control: Api<Workflow> = Api::namespaced(control.clone(), namespace);
        let wec: Api<Workflow> = Api::namespaced(wec.clone(), namespace);
        Ok(Self {
            control_tower: Tower::build(control.clone()).await?,
            wec_tower: Tower::build(wec.clone()).await?,
            control,
            wec,
        })
    }

    /// Sends one Workflow and brings two statuses back.
    async fn sample(&mut self, workflow: &Workflow, down: &mut Row, up: &mut Row) -> Result<()> {
        let name = workflow.name_any();
        create(&self.control, workflow).await?;
        let begin = self
            .control_tower
            .saw(&name, "it is on the control cluster", |_| true)
            .await?;
        let end = self.wec_tower.saw(&name, "it is on the WEC", |_| true).await?;
        down.add(end - begin);
        let argo = Argo::new(self.wec.clone());
        for wanted in ["Running", "Succeeded"] {
            if wanted == "Running" {
                argo.start(&name).await?;
            } else {
                argo.finish(&name, wanted).await?;
            }
            let shows = |workflow: &Workflow| phase(workflow) == wanted;
            let begin = self
                .wec_tower
                .saw(&name, "its status is on the WEC", shows)
                .await?;
            let end = self
                .control_tower
                .saw(&name, "its status is on the control cluster", shows)
                .await?;
            up.add(end - begin);
        }
        Ok(())
    }
}

/// Measures `count` Workflows, each beside one of the floor.
pub(crate) async fn measure(count: usize) -> Result<Vec<Row>> {
    let servers = Arc::new(Servers::start(Durability::Synced).await?);
    let stage = Arc::new(Stage::start(servers, "bench").await?);
    let scene = Scene::on(stage, "bench").await?;
    let member = scene.pull().await?;
    for client in [&scene.control, &member.wec] {
        create_namespace(client, FLOOR).await?;
    }
    let mut argosy = Ends::build(&scene.control, &member.wec, &scene.namespace).await?;
    let mut floor = Ends::build(&scene.control, &member.wec, FLOOR).await?;
    let mut copies = JoinSet::new();
    copies.spawn(floor::copy_down(floor.control.clone(), floor.wec.clone()));
    copies.spawn(floor::copy_up(floor.wec.clone(), floor.control.clone()));

    let mut rows = [
        Row::new("create on the control cluster to object on the WEC", true),
        Row::new("  floor: a copy with one request", false),
        Row::new("status on the WEC to the control cluster", true),
        Row::new("  floor: a copy with one request", false),
    ];
    // The first of each opens connections and is not counted.
    for number in 0..=count {
        let mut first = [(); 4].map(|()| Row::new("", false));
        let [down, floor_down, up, floor_up] = if number == 0 { &mut first } else { &mut rows };
        let name = format!("run-{number}");
        argosy
            .sample(&objects::workflow(&name, &member.cluster), down, up)
            .await?;
        argosy
            .wec_tower
            .saw(&name, "it is let go", |object| object.finalizers().is_empty())
            .await?;
        let mut plain = objects::workflow(&name, "");
        plain.metadata.labels = None;
        floor.sample(&plain, floor_down, floor_up).await?;
    }
    Ok(rows.into())
}
