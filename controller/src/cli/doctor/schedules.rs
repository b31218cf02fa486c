//! Check of the CronWorkflows of the control cluster: its own Argo fires them for the whole fleet,
//! so a workflow-controller must be there that takes them.
//!
//! Not here: the state of that workflow-controller otherwise (`deployments`).

use std::collections::BTreeMap;

use argosy_api::{names, workflow};
use argosy_core::{Failure, model::cron::fires};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

use super::{deployments, finding::Judgment};
use crate::runtime::requests::{call, found};

/// Name of the ConfigMap of the workflow-controller.
const CONFIG: &str = "workflow-controller-configmap";

/// Page size of a list, and the maximum number of pages: a CronWorkflow may have a megabyte.
const PAGE: u32 = 100;
const PAGES: usize = 100;

/// The Argo of the control cluster, as far as it fires CronWorkflows.
#[derive(Debug, Default, PartialEq)]
struct Argo {
    /// The reason why it fires none, if it does not.
    idle: Option<String>,
    /// It fires only those with its instance ID, or only those without one.
    instance: Option<String>,
}

/// CronWorkflows that are not suspended.
#[derive(Debug, Default)]
struct Schedules {
    count: usize,
    /// Number of those that the workflow-controller does not take, because of their instance ID.
    of_others: usize,
    first: Option<String>,
    first_of_others: Option<String>,
    /// There are more than were read.
    is_incomplete: bool,
}

/// Checks that somebody fires the CronWorkflows.
pub(super) async fn check(wds: &Client, namespace: &str) -> Judgment {
    let argo = match argo(wds, namespace).await {
        Ok(argo) => argo,
        Err(failure) => {
            return Judgment::unasked("read the workflow-controller and its configuration", &failure);
        }
    };
    match schedules(wds, argo.instance.as_deref()).await {
        Ok(schedules) => judge(&argo, &schedules),
        Err(Failure::Unserved(_) | Failure::NotFound { .. }) => {
            Judgment::skipped("the control cluster does not serve CronWorkflows")
        }
        Err(failure) => Judgment::unasked("list CronWorkflows", &failure),
    }
}

async fn argo(wds: &Client, namespace: &str) -> Result<Argo, Failure> {
    let config: Api<ConfigMap> = Api::namespaced(wds.clone(), namespace);
    let config = found(call(config.get(CONFIG)).await)?;
    let deployment = deployments::workflow_controller(wds, namespace).await?;
    Ok(Argo {
        idle: idle(deployment.as_ref(), namespace),
        instance: config.as_ref().and_then(instance),
    })
}

/// The reason why no workflow-controller fires anything.
fn idle(deployment: Option<&Deployment>, namespace: &str) -> Option<String> {
    let Some(deployment) = deployment else {
        return Some(format!(
            "there is no workflow-controller in namespace {namespace}"
        ));
    };
    let name = deployment.name_any();
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    if wanted == 0 {
        return Some(format!("Deployment {namespace}/{name} is scaled to 0"));
    }
    (deployments::ready(deployment) == 0).then(|| format!("Deployment {namespace}/{name} has no ready pod"))
}

/// The instance ID in the configuration: a key of its own, or in the YAML of the key `config`.
fn instance(config: &ConfigMap) -> Option<String> {
    let data = config.data.as_ref()?;
    let own = data
        .get("instanceID")
        .map(|text| text.trim().trim_matches('"').to_owned());
    let whole = || serde_saphyr::from_str::<Value>(data.get("config")?).ok();
    let within = || Some(whole()?.get("instanceID")?.as_str()?.to_owned());
    own.or_else(within).filter(|id| !id.is_empty())
}

async fn schedules(wds: &Client, instance: Option<&str>) -> Result<Schedules, Failure> {
    let kind = GroupVersionKind::gvk(workflow::GROUP, workflow::VERSION, "CronWorkflow");
    let api: Api<DynamicObject> = Api::all_with(wds.clone(), &ApiResource::from_gvk(&kind));
    let mut schedules = Schedules::default();
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..PAGES {
        let page = call(api.list(&params)).await?;
        page.items.iter().for_each(|cron| schedules.add(cron, instance));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(schedules);
        }
    }
    schedules.is_incomplete = true;
    Ok(schedules)
}

impl Schedules {
    fn add(&mut self, cron: &DynamicObject, instance: Option<&str>) {
        if !fires(&cron.data) {
            return;
        }
        self.count += 1;
        self.first.get_or_insert_with(|| title(cron));
        if !takes(instance, cron.labels()) {
            self.of_others += 1;
            self.first_of_others.get_or_insert_with(|| title(cron));
        }
    }
}

fn title(cron: &DynamicObject) -> String {
    format!("{} -n {}", cron.name_any(), cron.namespace().unwrap_or_default())
}

/// True if a workflow-controller with this instance ID takes objects with these labels.
fn takes(instance: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
    labels.get(names::ARGO_INSTANCE_LABEL).map(String::as_str) == instance
}

fn judge(argo: &Argo, schedules: &Schedules) -> Judgment {
    let Schedules { count, of_others, .. } = schedules;
    let more = if schedules.is_incomplete { "at least " } else { "" };
    let Some(first) = &schedules.first else {
        return Judgment::ok("no CronWorkflow of the control cluster is to be fired");
    };
    if let Some(idle) = &argo.idle {
        return Judgment::warning(
            format!(
                "{idle}, so nobody fires {more}{count} CronWorkflows on the control cluster, such as {first}"
            ),
            "run a workflow-controller there, or set its namespace with --argo-namespace; or let each cluster fire \
            them: annotate their BindingPolicy with argosy.dev/cron=each-cluster and suspend them here",
        );
    }
    if let Some(first) = &schedules.first_of_others {
        let (takes, fix) = match &argo.instance {
            Some(id) => (
                format!("takes only objects with the instance ID {id}"),
                format!("label them {}={id}", names::ARGO_INSTANCE_LABEL),
            ),
            None => (
                "takes only objects without an instance ID".to_owned(),
                format!("remove their label {}", names::ARGO_INSTANCE_LABEL),
            ),
        };
        return Judgment::warning(
            format!(
                "the local workflow-controller {takes}, so it does not fire {more}{of_others} CronWorkflows, such as {first}"
            ),
            format!("{fix}, unless another workflow-controller fires them"),
        );
    }
    Judgment::ok(format!(
        "the local workflow-controller fires {more}{count} CronWorkflows"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::finding::Outcome, *};

    fn cron(name: &str, suspend: bool, instance: Option<&str>) -> DynamicObject {
        let mut labels = json!({});
        if let Some(id) = instance {
            labels[names::ARGO_INSTANCE_LABEL] = json!(id);
        }
        serde_json::from_value(json!({
            "metadata": { "namespace": "argo", "name": name, "labels": labels }, "spec": { "suspend": suspend },
        }))
        .unwrap()
    }

    fn judged(argo: &Argo, crons: &[DynamicObject]) -> Judgment {
        let mut schedules = Schedules::default();
        for cron in crons {
            schedules.add(cron, argo.instance.as_deref());
        }
        judge(argo, &schedules)
    }

    fn of(instance: Option<&str>) -> Argo {
        Argo {
            idle: None,
            instance: instance.map(str::to_owned),
        }
    }

    #[test]
    fn schedules_that_nobody_fires_are_a_warning_with_the_reason() {
        let idle = Argo {
            idle: Some("there is no workflow-controller in namespace argo".to_owned()),
            instance: None,
        };
        for (argo, crons, outcome, message) in [
            (&idle, vec![], Outcome::Ok, "no CronWorkflow"),
            (&idle, vec![cron("a", true, None)], Outcome::Ok, "no CronWorkflow"),
            (
                &idle,
                vec![cron("a", false, None)],
                Outcome::Warning,
                "so nobody fires 1 CronWorkflows on the control cluster, such as a -n argo",
            ),
            (
                &of(None),
                vec![cron("a", false, None)],
                Outcome::Ok,
                "fires 1 CronWorkflows",
            ),
            (
                &of(None),
                vec![cron("a", false, None), cron("b", false, Some("x"))],
                Outcome::Warning,
                "without an instance ID, so it does not fire 1 CronWorkflows, such as b -n argo",
            ),
            (
                &of(Some("x")),
                vec![cron("a", false, Some("x"))],
                Outcome::Ok,
                "fires 1",
            ),
            (
                &of(Some("x")),
                vec![cron("a", false, None)],
                Outcome::Warning,
                "with the instance ID x, so it does not fire 1 CronWorkflows, such as a -n argo",
            ),
            (
                &of(Some("x")),
                vec![cron("a", false, Some("y"))],
                Outcome::Warning,
                "with the instance ID x",
            ),
        ] {
            let judgment = judged(argo, &crons);
            assert_eq!(judgment.outcome, outcome, "{judgment:?}");
            assert!(judgment.message.contains(message), "{judgment:?}");
        }
    }

    #[test]
    fn the_instance_id_is_a_key_of_its_own_or_in_the_whole_configuration() {
        let config = |key: &str, text: &str| -> ConfigMap {
            serde_json::from_value(json!({ "data": { key: text } })).unwrap()
        };
        for (key, text, expected) in [
            ("instanceID", "mine", Some("mine")),
            ("instanceID", "\"mine\"\n", Some("mine")),
            ("instanceID", "", None),
            ("config", "instanceID: mine\nparallelism: 3", Some("mine")),
            ("config", "parallelism: 3", None),
            ("config", "[", None),
            ("parallelism", "3", None),
        ] {
            assert_eq!(instance(&config(key, text)).as_deref(), expected, "{key}: {text}");
        }
    }

    #[test]
    fn a_workflow_controller_that_is_missing_scaled_down_or_not_ready_fires_nothing() {
        let deployment = |replicas: i32, ready: i32| -> Deployment {
            serde_json::from_value(json!({
                "metadata": { "name": "workflow-controller" },
                "spec": { "replicas": replicas, "selector": {}, "template": {} }, "status": { "readyReplicas": ready },
            }))
            .unwrap()
        };
        assert!(idle(None, "argo").unwrap().contains("no workflow-controller"));
        assert!(
            idle(Some(&deployment(0, 0)), "argo")
                .unwrap()
                .contains("scaled to 0")
        );
        assert!(
            idle(Some(&deployment(1, 0)), "argo")
                .unwrap()
                .contains("no ready pod")
        );
        assert_eq!(idle(Some(&deployment(1, 1)), "argo"), None);
    }
}
