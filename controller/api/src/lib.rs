//! Wire types of everything that Argosy reads and writes, and every name that it uses on objects.
//!
//! Owned here: the KubeStellar, Open Cluster Management and Argo kinds as far as Argosy needs them,
//! the CRDs generated from them, and every label, annotation, finalizer, condition and reason. Not
//! here: the logic that uses them (`argosy-core`), and requests (`argosy`).

pub mod applied_manifest_work;
pub mod binding;
pub mod binding_policy;
pub mod combined_status;
pub mod conditions;
pub mod crds;
pub mod custom_transform;
pub mod issued;
pub mod managed_cluster;
pub mod manifest_status;
pub mod manifest_work;
pub mod names;
pub mod status_collector;
pub mod work_status;
pub mod workflow;

pub use applied_manifest_work::{AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus};
pub use binding::{Binding, BindingSpec};
pub use binding_policy::{BindingPolicy, BindingPolicySpec, BindingPolicyStatus, DownsyncClause};
pub use combined_status::{
    AggregationError, Cell, CellType, CombinedStatus, NamedStatusCombination, RowError, StatusCombinationRow,
    Wec,
};
pub use custom_transform::{CustomTransform, CustomTransformSpec, CustomTransformStatus, SetRule};
pub use managed_cluster::{ClusterClaim, ManagedCluster, ManagedClusterSpec, ManagedClusterStatus};
pub use manifest_work::{ManifestWork, ManifestWorkSpec, ManifestWorkStatus};
pub use status_collector::{
    NamedAggregator, NamedExpression, StatusCollector, StatusCollectorSpec, StatusCollectorStatus,
};
pub use work_status::{Outcome, Reported, SourceRef, WorkStatus, WorkStatusSpec};
pub use workflow::Workflow;
