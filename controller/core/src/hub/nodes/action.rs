//! The requests of the index of virtual Nodes, each one request to the WDS or the ITS.

use std::fmt;

use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use crate::Action;

/// Name and UID of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOwner {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeAction {
    /// ITS: offer a tunnel to the agent of a cluster, or withdraw the offer, on the ManagedCluster
    /// with this resource version.
    Offer(String, Option<String>),
    /// WDS: create a Node.
    Create(Box<Node>),
    /// WDS: patch metadata and specification of a Node. A merge patch.
    Update(Value),
    /// WDS: patch the status of a Node. A merge patch.
    Status(Value),
    /// WDS: renew the Lease of a Node.
    Renew(NodeOwner),
    /// WDS: delete a Node.
    Delete(NodeOwner),
}

impl Action for NodeAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::Offer(..) => "offer_tunnel",
            Self::Create(_) => "create_node",
            Self::Update(_) => "update_node",
            Self::Status(_) => "update_node_status",
            Self::Renew(_) => "renew_node_lease",
            Self::Delete(_) => "delete_node",
        }
    }
}

impl fmt::Display for NodeAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Offer(_, Some(_)) => "offer a tunnel to the agent",
            Self::Offer(_, None) => "withdraw the offer of a tunnel",
            Self::Create(_) => "create the virtual Node",
            Self::Update(_) => "update the virtual Node",
            Self::Status(_) => "update the status of the virtual Node",
            Self::Renew(_) => "renew the Lease of the virtual Node",
            Self::Delete(_) => "delete the virtual Node",
        })
    }
}
