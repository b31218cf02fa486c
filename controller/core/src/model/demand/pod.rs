//! The resources that a pod asks for: the pod of a template, and one that exists.

use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::Value;

use crate::model::amounts::{self, Amounts, CPU, MEMORY};

/// CPU that the kube-scheduler assumes for a container that asks for none, in thousandths of a core.
const ASSUMED_CPU: u64 = 100;

/// Memory that the kube-scheduler assumes for a container that asks for none, in bytes.
const ASSUMED_MEMORY: u64 = 200 * 1024 * 1024;

/// The restart policy by which an init container is a sidecar.
const ALWAYS: &str = "Always";

/// Types of templates that have no pod.
const WITHOUT_POD: [&str; 3] = ["suspend", "http", "plugin"];

/// Maximum number of sidecars, and of init containers, that all templates have. They count for each
/// template, so a longer list is not read.
const MOST_DEFAULTS: usize = 64;

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

    /// The pod of a template; `None` if the template has none. `defaults` has fields of other templates
    /// that count where this one has none (`templateDefaults`).
    pub(super) fn of_template(template: &Value, defaults: &Value) -> Option<Self> {
        if WITHOUT_POD.iter().any(|type_| template.get(type_).is_some()) {
            return None;
        }
        let list = |field: &'static str| {
            let own = items(template, field);
            let more = Some(items(defaults, field)).filter(|more| more.len() <= MOST_DEFAULTS);
            let is_new = |item: &&Value| own.iter().all(|own| own.get("name") != item.get("name"));
            more.unwrap_or_default().iter().filter(is_new).chain(own)
        };
        let set = template.get("containerSet").and_then(|set| set.get("containers"));
        let set = set.and_then(Value::as_array).into_iter().flatten();
        let main = ["container", "script"].into_iter().filter_map(|field| {
            let resources = template.get(field)?.get("resources");
            let mut asked = requests(defaults.get(field).and_then(|of| of.get("resources")));
            asked.replace(&requests(resources));
            Some(Self::asking(asked))
        });
        let mut containers: Vec<Self> = main
            .chain(set.map(Self::container))
            .chain(list("sidecars").map(Self::container))
            .collect();
        if containers.is_empty() {
            // A `resource` or `data` template has a container of Argo's.
            containers.push(Self::unknown());
        }
        let is_sidecar = |one: &Value| one.get("restartPolicy").and_then(Value::as_str) == Some(ALWAYS);
        let initial: Vec<(Self, bool)> = list("initContainers")
            .map(|one| (Self::container(one), is_sidecar(one)))
            .collect();
        let effective = |of: fn(&Self) -> &Amounts| {
            let initial = initial.iter().map(|(one, is_sidecar)| (of(one), *is_sidecar));
            effective(containers.iter().map(of), initial)
        };
        let mut pod = Self {
            asked: effective(|pod| &pod.asked),
            assumed: effective(|pod| &pod.assumed),
        };
        // Argo's own field for the resources of the whole pod.
        let mut whole = requests(defaults.get("podResources"));
        whole.replace(&requests(template.get("podResources")));
        pod.asked.replace(&whole);
        pod.assumed.replace(&whole);
        Some(pod)
    }

    fn container(container: &Value) -> Self {
        Self::asking(requests(container.get("resources")))
    }

    fn asking(asked: Amounts) -> Self {
        let mut assumed = Amounts::default();
        assumed.set(CPU, ASSUMED_CPU);
        assumed.set(MEMORY, ASSUMED_MEMORY);
        assumed.replace(&asked);
        Self { asked, assumed }
    }
}

/// The items of a list in a template.
fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    let items = of.get(field).and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

/// The requests of a pod that exists, as the kube-scheduler counts them (component-helpers,
/// `resource.PodRequests`). The API server has already taken limits for requests that are absent.
pub(crate) fn pod_requests(pod: &PodSpec) -> Amounts {
    let of = |container: &Container| {
        let requests = container
            .resources
            .as_ref()
            .and_then(|known| known.requests.as_ref());
        requests.map(Amounts::of).unwrap_or_default()
    };
    let containers: Vec<Amounts> = pod.containers.iter().map(of).collect();
    let initial = pod.init_containers.iter().flatten();
    let initial: Vec<(Amounts, bool)> = initial
        .map(|one| (of(one), one.restart_policy.as_deref() == Some(ALWAYS)))
        .collect();
    let initial = initial.iter().map(|(amounts, is_sidecar)| (amounts, *is_sidecar));
    let mut amounts = effective(containers.iter(), initial);
    let whole = pod.resources.as_ref().and_then(|known| known.requests.as_ref());
    let mut whole = whole.map(Amounts::of).unwrap_or_default();
    whole.retain(|name| [CPU, MEMORY].contains(&name) || name.starts_with("hugepages-"));
    amounts.replace(&whole);
    amounts.add(&pod.overhead.as_ref().map(Amounts::of).unwrap_or_default());
    amounts
}

/// The most that a pod asks for at a time. Init containers run one after the other before the
/// containers; sidecars among them, which are marked, keep running.
fn effective<'a>(
    containers: impl Iterator<Item = &'a Amounts>,
    initial: impl Iterator<Item = (&'a Amounts, bool)>,
) -> Amounts {
    let (mut sidecars, mut most) = (Amounts::default(), Amounts::default());
    for (amounts, is_sidecar) in initial {
        let mut running = sidecars.clone();
        running.add(amounts);
        most.raise(&running);
        if is_sidecar {
            sidecars = running;
        }
    }
    for amounts in containers {
        sidecars.add(amounts);
    }
    sidecars.raise(&most);
    sidecars
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
