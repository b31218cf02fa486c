//! Virtual Nodes: one for each cluster of the fleet, so that `kubectl logs`, `argo logs` and the
//! Argo UI show the pods of dispatched Workflows.
//!
//! Owned here: the tunnels of agents, the kubelet endpoint that the API server asks for logs, the
//! Nodes, and the shadow pods. Not here: the decisions (`argosy_core::hub::nodes` and
//! `argosy_core::hub::shadow_pods`), and the bytes of a tunnel (`runtime::tunnel`).
