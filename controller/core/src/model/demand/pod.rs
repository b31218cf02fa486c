//! The resources that the pod of a template asks for.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use crate::model::amounts::{self, Amounts, CPU, MEMORY};

/// CPU that the kube-scheduler assumes for a container that asks for none, in thousandths of a core.
const ASSUMED_CPU: u64 = 100;

/// Memory that the kube-scheduler assumes for a container that asks for none, in bytes.
const ASSUMED_MEMORY: u64 = 200 * 1024 * 1024;

/// Types of templates that have no pod.
const WITHOUT_POD: [&str; 3] = ["suspend", "http", "plugin"];

/// The resources of a pod, or of one of its containers.
#[derive(Clone, Debug, Default)]
pub(super) struct Pod {
    /// The requests, which a node must have.
    pub(super) asked: Amounts,
    /// The requests, and what is assumed where there are none.
    pub(super) assumed: Amounts,
}

impl Pod {
    /// A pod of which nothing is known: one container that asks for nothing.
    pub(super) fn unknown() -> Self {
        Self::container(&Value::Null)
    }

    /// The pod of a template; `None` if the template has none.
    pub(super) fn of_template(template: &Value) -> Option<Self> {
        if WITHOUT_POD.iter().any(|type_| template.get(type_).is_some()) {
            return None;
        }
        let list = |field: &str| {
            template
                .get(field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let set = template.get("containerSet").and_then(|set| set.get("containers"));
        let set = set.and_then(Value::as_array).into_iter().flatten();
        let main = ["container", "script"]
            .into_iter()
            .filter_map(|field| template.get(field));
        let mut pod = Self::default();
        for one in main.chain(set).chain(list("sidecars")) {
            let container = Self::container(one);
            pod.asked.add(&container.asked);
            pod.assumed.add(&container.assumed);
        }
        if pod.assumed.is_empty() {
            // A `resource` or `data` template has a container of Argo's.
            pod = Self::unknown();
        }
        for one in list("initContainers") {
            let container = Self::container(one);
            pod.asked.raise(&container.asked);
            pod.assumed.raise(&container.assumed);
        }
        // Argo's own field for the resources of the whole pod.
        let whole = requests(template.get("podResources"));
        pod.asked.replace(&whole);
        pod.assumed.replace(&whole);
        Some(pod)
    }

    fn container(container: &Value) -> Self {
        let asked = requests(container.get("resources"));
        let mut assumed = Amounts::default();
        assumed.set(CPU, ASSUMED_CPU);
        assumed.set(MEMORY, ASSUMED_MEMORY);
        assumed.replace(&asked);
        Self { asked, assumed }
    }
}

/// The requests in a field `resources`. Kubernetes takes limits for requests that are absent.
fn requests(resources: Option<&Value>) -> Amounts {
    let mut amounts = Amounts::default();
    for field in ["limits", "requests"] {
        let known = resources.and_then(|resources| resources.get(field)?.as_object());
        for (name, amount) in known.into_iter().flatten() {
            if let Some(amount) = read(name, amount) {
                amounts.set(name, amount);
            }
        }
    }
    amounts
}

/// A quantity, which may be written as a number. One with a template tag cannot be read.
fn read(name: &str, amount: &Value) -> Option<u64> {
    let text = match amount {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    amounts::read(name, &Quantity(text))
}
