//! One table per kind with its own rules: the object on the control cluster, and the remaining
//! object.

use serde_json::json;

use super::*;

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "the tables pass literals")]
fn check(group: &str, resource: &str, object: Value, expected: Value) {
    let mut stripped = object;
    strip(group, resource, &mut stripped);
    assert_eq!(stripped, expected);
    strip(group, resource, &mut stripped);
    assert_eq!(stripped, expected, "the second time");
}

#[track_caller]
fn check_unchanged(group: &str, resource: &str, object: &Value) {
    check(group, resource, object.clone(), object.clone());
}

#[test]
fn a_workflow_is_stripped_as_a_workflow() {
    check(
        "argoproj.io",
        "workflows",
        json!({
            "metadata": {"name": "w", "labels": {"workflows.argoproj.io/completed": "true"}},
            "spec": {"suspend": true, "entrypoint": "main"}, "status": {},
        }),
        json!({"metadata": {"name": "w"}, "spec": {"entrypoint": "main"}}),
    );
}

#[test]
fn templates_keep_everything_but_what_the_server_set() {
    check(
        "argoproj.io",
        "workflowtemplates",
        json!({"metadata": {"name": "t", "uid": "1", "labels": {"workflows.argoproj.io/phase": "x"}}, "spec": {"suspend": true}}),
        json!({"metadata": {"name": "t", "labels": {"workflows.argoproj.io/phase": "x"}}, "spec": {"suspend": true}}),
    );
}

#[test]
fn a_cron_workflow_fires_there_and_loses_what_the_argo_here_has_noted() {
    check(
        "argoproj.io",
        "cronworkflows",
        json!({
            "metadata": {
                "name": "nightly",
                "labels": {
                    "team": "a", "workflows.argoproj.io/controller-instanceid": "here", "cronworkflows.argoproj.io/completed": "true",
                },
                "annotations": {"note": "kept", "cronworkflows.argoproj.io/last-used-schedule": "* * * * *"},
            },
            "spec": {
                "suspend": true, "schedules": ["@daily"],
                "workflowMetadata": {"labels": {"workflows.argoproj.io/controller-instanceid": "theirs"}},
                "workflowSpec": {"suspend": true},
            },
            "status": {"active": [{"name": "nightly-1"}]},
        }),
        json!({
            "metadata": {"name": "nightly", "labels": {"team": "a"}, "annotations": {"note": "kept"}},
            "spec": {
                "schedules": ["@daily"],
                "workflowMetadata": {"labels": {"workflows.argoproj.io/controller-instanceid": "theirs"}},
                "workflowSpec": {"suspend": true},
            },
        }),
    );
}

#[test]
fn a_job_loses_what_names_its_uid_and_its_suspension() {
    check(
        "batch",
        "jobs",
        json!({
            "metadata": {
                "name": "pi",
                "labels": {"app": "pi", "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"},
                "annotations": {"batch.kubernetes.io/job-tracking": ""},
            },
            "spec": {
                "suspend": true, "manualSelector": false, "backoffLimit": 4,
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "template": {
                    "metadata": {"labels": {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "job-name": "pi"}},
                    "spec": {"restartPolicy": "Never"},
                },
            },
            "status": {"active": 1},
        }),
        json!({
            "metadata": {"name": "pi", "labels": {"app": "pi"}},
            "spec": {
                "manualSelector": false, "backoffLimit": 4,
                "template": {"metadata": {"labels": {"job-name": "pi"}}, "spec": {"restartPolicy": "Never"}},
            },
        }),
    );
}

#[test]
fn a_selector_that_the_user_of_a_job_made_stays_with_its_labels() {
    let spec = json!({
        "manualSelector": true, "selector": {"matchLabels": {"controller-uid": "mine"}},
        "template": {"metadata": {"labels": {"controller-uid": "mine"}}},
    });
    check_unchanged(
        "batch",
        "jobs",
        &json!({"metadata": {"name": "pi"}, "spec": spec}),
    );
}

#[test]
fn a_cron_job_keeps_the_job_in_it() {
    let spec = json!({"suspend": true, "jobTemplate": {"spec": {"suspend": true, "selector": {}}}});
    check_unchanged(
        "batch",
        "cronjobs",
        &json!({"metadata": {"name": "c"}, "spec": spec}),
    );
}

fn service(cluster_ip: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "s", "annotations": annotations},
        "spec": {
            "type": "NodePort", "selector": {"app": "a"}, "clusterIP": cluster_ip, "clusterIPs": [cluster_ip],
            "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 30090, "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        },
        "status": {"loadBalancer": {}},
    })
}

#[test]
fn a_service_is_given_its_addresses_and_ports_anew() {
    check(
        "",
        "services",
        service("10.96.1.2", &json!({"note": "n"})),
        json!({
            "metadata": {"name": "s", "annotations": {"note": "n"}},
            "spec": {"type": "NodePort", "selector": {"app": "a"}, "ports": [{"port": 80}, {"port": 81}]},
        }),
    );
}

#[test]
fn a_service_stays_headless_and_keeps_node_ports_where_its_user_says_so() {
    let keep = json!({"control.kubestellar.io/preserve": "nodeport"});
    check(
        "",
        "services",
        service("None", &keep),
        json!({
            "metadata": {"name": "s", "annotations": keep},
            "spec": {
                "type": "NodePort", "selector": {"app": "a"}, "clusterIP": "None", "clusterIPs": ["None"],
                "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}],
            },
        }),
    );
}

#[test]
fn a_pod_leaves_its_node_and_its_token_behind() {
    let mounts = json!([
        {"name": "data", "mountPath": "/data"},
        {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]);
    let only_token = json!([mounts[1]]);
    check(
        "",
        "pods",
        json!({
            "metadata": {"name": "p"},
            "spec": {
                "nodeName": "node-1", "serviceAccountName": "a", "serviceAccount": "a", "priority": 0, "priorityClassName": "high",
                "preemptionPolicy": "PreemptLowerPriority", "overhead": {"cpu": "1"}, "ephemeralContainers": [{"name": "e"}],
                "tolerations": [{"key": "node.kubernetes.io/not-ready"}],
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-x7k2p", "projected": {"sources": []}}],
                "containers": [{"name": "a", "volumeMounts": mounts}, {"name": "b"}],
                "initContainers": [{"name": "i", "volumeMounts": only_token}],
            },
        }),
        json!({
            "metadata": {"name": "p"},
            "spec": {
                "serviceAccountName": "a", "serviceAccount": "a", "priorityClassName": "high",
                "tolerations": [{"key": "node.kubernetes.io/not-ready"}],
                "volumes": [{"name": "data", "emptyDir": {}}],
                "containers": [{"name": "a", "volumeMounts": [mounts[0]]}, {"name": "b"}],
                "initContainers": [{"name": "i"}],
            },
        }),
    );
}

#[test]
fn a_volume_that_only_has_such_a_name_stays_mounted() {
    let spec = json!({
        "volumes": [{"name": "kube-api-access-mine", "emptyDir": {}}],
        "containers": [{"name": "a", "volumeMounts": [{"name": "kube-api-access-mine", "mountPath": "/x"}]}],
    });
    check_unchanged("", "pods", &json!({"metadata": {"name": "p"}, "spec": spec}));
}

#[test]
fn a_claim_that_the_controller_bound_is_bound_anew() {
    check(
        "",
        "persistentvolumeclaims",
        json!({
            "metadata": {"name": "c", "annotations": {
                "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.kubernetes.io/storage-provisioner": "p", "volume.beta.kubernetes.io/storage-provisioner": "p",
                "volume.kubernetes.io/selected-node": "n", "volume.beta.kubernetes.io/storage-class": "fast",
            }},
            "spec": {"volumeName": "pvc-1", "storageClassName": "fast"},
        }),
        json!({
            "metadata": {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}},
            "spec": {"storageClassName": "fast"},
        }),
    );
}

#[test]
fn a_claim_keeps_the_volume_that_its_user_named() {
    check(
        "",
        "persistentvolumeclaims",
        json!({"metadata": {"name": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "nfs"}}),
        json!({"metadata": {"name": "c"}, "spec": {"volumeName": "nfs"}}),
    );
}

#[test]
fn a_volume_stays_reserved_for_a_claim_by_name() {
    check(
        "",
        "persistentvolumes",
        json!({
            "metadata": {"name": "v", "annotations": {
                "pv.kubernetes.io/bound-by-controller": "yes", "pv.kubernetes.io/provisioned-by": "csi",
            }},
            "spec": {"claimRef": {"namespace": "n", "name": "c", "uid": "1", "resourceVersion": "2"}},
        }),
        json!({
            "metadata": {"name": "v", "annotations": {"pv.kubernetes.io/provisioned-by": "csi"}},
            "spec": {"claimRef": {"namespace": "n", "name": "c"}},
        }),
    );
}

#[test]
fn a_service_account_forgets_the_tokens_that_were_generated_for_it() {
    check(
        "",
        "serviceaccounts",
        json!({
            "metadata": {"name": "builder"},
            "secrets": [
                {"name": "builder-token-x7k2p"}, {"name": "builder-token-x7k2pq"}, {"name": "builder-token-aeiou"},
                {"name": "other-token-x7k2p"}, {"name": "builder-dockercfg-x7k2p"},
            ],
            "imagePullSecrets": [{"name": "builder-token-x7k2p"}],
        }),
        json!({
            "metadata": {"name": "builder"},
            "secrets": [
                {"name": "builder-token-x7k2pq"}, {"name": "builder-token-aeiou"}, {"name": "other-token-x7k2p"},
                {"name": "builder-dockercfg-x7k2p"},
            ],
            "imagePullSecrets": [{"name": "builder-token-x7k2p"}],
        }),
    );
    check(
        "",
        "serviceaccounts",
        json!({"metadata": {"name": "default"}, "secrets": [{"name": "default-token-x7k2p"}]}),
        json!({"metadata": {"name": "default"}}),
    );
}

#[test]
fn a_token_secret_goes_down_empty_and_other_secrets_as_they_are() {
    let account = json!({"kubernetes.io/service-account.name": "a"});
    check(
        "",
        "secrets",
        json!({
            "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "t", "annotations": {
                "kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "1",
            }},
            "data": {"token": "dA==", "ca.crt": "Yw==", "namespace": "bg==", "extra": "ZQ=="},
        }),
        json!({
            "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "t", "annotations": account}, "data": {"extra": "ZQ=="},
        }),
    );
    check_unchanged(
        "",
        "secrets",
        &json!({"type": "Opaque", "metadata": {"name": "s"}, "data": {"token": "dA=="}}),
    );
}

#[test]
fn a_namespace_goes_down_without_the_servers_finalizer_and_label() {
    check(
        "",
        "namespaces",
        json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n", "team": "a"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        }),
        json!({"metadata": {"name": "n", "labels": {"team": "a"}}}),
    );
}

#[test]
fn what_rolls_out_starts_its_own_count() {
    for resource in ["deployments", "replicasets", "daemonsets", "statefulsets"] {
        check(
            "apps",
            resource,
            json!({
                "metadata": {"name": "d", "annotations": {
                    "deployment.kubernetes.io/revision": "7", "deployment.kubernetes.io/desired-replicas": "3",
                    "deprecated.daemonset.template.generation": "2", "kubernetes.io/change-cause": "mine",
                }},
                "spec": {"replicas": 3},
            }),
            json!({"metadata": {"name": "d", "annotations": {"kubernetes.io/change-cause": "mine"}}, "spec": {"replicas": 3}}),
        );
    }
}

#[test]
fn kinds_without_rules_lose_only_what_every_kind_loses() {
    for (group, resource) in [
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("", "configmaps"),
        ("example.com", "services"),
        ("example.com", "jobs"),
    ] {
        let rest = json!({
            "metadata": {"name": "x"},
            "spec": {"selector": {}, "suspend": true, "clusterIP": "10.0.0.1", "nodeName": "n", "caBundle": "Y2E="},
            "webhooks": [{"clientConfig": {"caBundle": "Y2E="}}], "data": {"token": "dA=="},
        });
        let mut object = rest.clone();
        object["status"] = json!({"conditions": []});
        object["metadata"]["uid"] = json!("1");
        check(group, resource, object, rest);
    }
}
