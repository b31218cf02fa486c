//! The cluster and the hub of the tables: they answer each action as an API server would.

use super::*;

impl World {
    pub(super) fn carry_out(&mut self, name: &str, action: ApplyAction) -> ApplyInput {
        match action {
            ApplyAction::Discover(api) => {
                let served = self.served(&api);
                ApplyInput::Served(api, served)
            }
            ApplyAction::Look { key, executor } => match executor {
                Some(account) if account.name != self.reader => {
                    let message = format!("the executor {} is not allowed to get {key}", account.name);
                    ApplyInput::Failed(key, Failure::Refused(message))
                }
                Some(_) => {
                    let there = self
                        .objects
                        .get(&key)
                        .map(|object| Box::new(read(object.clone())));
                    ApplyInput::Reviewed(key, there)
                }
                None => self.seen(&key),
            },
            ApplyAction::Apply(application) => self.apply(*application),
            ApplyAction::Evaluate { key, evaluation } => {
                ApplyInput::Evaluated(key, Box::new(evaluation.run()))
            }
            ApplyAction::MakeNamespace { namespace, key, .. } => {
                let name = super::key("namespaces", &namespace);
                self.put(
                    &name,
                    json!({ "metadata": { "labels": { names::MADE_FOR_LABEL: "cluster1" } } }),
                );
                ApplyInput::NamespaceMade(key)
            }
            ApplyAction::Delete { key, uid, .. } => {
                assert_eq!(self.objects[&key]["metadata"]["uid"], uid);
                self.remove(&key);
                ApplyInput::Seen(key, None)
            }
            ApplyAction::GiveUp { key, patch } => {
                let mut object = self.objects[&key].clone();
                let patch: json_patch::Patch = serde_json::from_value(patch.to_value()).unwrap();
                json_patch::patch(&mut object, &patch).unwrap();
                self.objects.insert(key.clone(), object.clone());
                ApplyInput::Seen(key, Some(Box::new(read(object))))
            }
            ApplyAction::Record(record) => {
                let record = match self.left.remove(name) {
                    Some(mut left) => {
                        let patch = taking_over(&read(left.clone()), &record).unwrap();
                        let patch: json_patch::Patch = read(patch.to_value());
                        json_patch::patch(&mut left, &patch).unwrap();
                        read(left)
                    }
                    None => *record,
                };
                let record = self.stamped(record);
                ApplyInput::Record(Change::Apply(Box::new(record)))
            }
            ApplyAction::Rewrite { resources, .. } => {
                let mut record = self.record(name);
                record.status.as_mut().unwrap().applied_resources = resources;
                ApplyInput::Record(Change::Apply(Box::new(self.stamped(record))))
            }
            ApplyAction::DropRecord(_) => ApplyInput::RecordGone(name.into()),
            ApplyAction::WriteStatus { status, .. } => {
                self.version += 1;
                let mut status = *status;
                status.metadata.resource_version = Some(self.version.to_string());
                ApplyInput::WorkStatus(Change::Apply(Box::new(status)))
            }
            ApplyAction::DeleteStatus => ApplyInput::ReportedGone(name.into()),
            ApplyAction::Hold(patch) => {
                let finalizers = patch.value_at("/metadata/finalizers").unwrap().clone();
                let mut work = self.works[name].clone();
                work["metadata"]["finalizers"] = finalizers.clone();
                if finalizers == json!([]) && work["metadata"].get("deletionTimestamp").is_some() {
                    self.works.remove(name);
                    return ApplyInput::Work(Change::Apply(Box::new(read(work))));
                }
                self.version += 1;
                work["metadata"]["resourceVersion"] = json!(self.version.to_string());
                self.works.insert(name.to_owned(), work.clone());
                ApplyInput::Work(Change::Apply(Box::new(read(work))))
            }
            ApplyAction::Status { status, .. } => {
                self.version += 1;
                let work = self.works.get_mut(name).unwrap();
                work["status"] = serde_json::to_value(status).unwrap();
                work["metadata"]["resourceVersion"] = json!(self.version.to_string());
                ApplyInput::Work(Change::Apply(Box::new(read(work.clone()))))
            }
        }
    }

    fn stamped(&mut self, mut record: AppliedManifestWork) -> AppliedManifestWork {
        self.version += 1;
        record.metadata.resource_version = Some(self.version.to_string());
        record
    }

    pub(super) fn served(&self, api: &GroupVersion) -> Vec<Served> {
        let served = |kind: &str, plural: &str, is_namespaced| Served {
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            is_namespaced,
        };
        let is_defined = self
            .objects
            .contains_key(&key("customresourcedefinitions", "widgets.example.com"));
        match api.to_string().as_str() {
            "v1" => vec![
                served("ConfigMap", "configmaps", true),
                served("ServiceAccount", "serviceaccounts", true),
                served("Namespace", "namespaces", false),
            ],
            "apiextensions.k8s.io/v1" => vec![served(
                "CustomResourceDefinition",
                "customresourcedefinitions",
                false,
            )],
            "rbac.authorization.k8s.io/v1" => vec![served("RoleBinding", "rolebindings", true)],
            "argoproj.io/v1alpha1" => vec![served("CronWorkflow", "cronworkflows", true)],
            "example.com/v1" if is_defined => vec![served("Widget", "widgets", true)],
            _ => Vec::new(),
        }
    }

    fn seen(&self, key: &ObjectKey) -> ApplyInput {
        let there = self.objects.get(key).map(|object| Box::new(read(object.clone())));
        ApplyInput::Seen(key.clone(), there)
    }

    /// Server-side apply with force, for objects whose lists are atomic. It fails if the namespace
    /// does not exist.
    fn apply(&mut self, application: Application) -> ApplyInput {
        let key = application.key.clone();
        let namespace = super::key("namespaces", &key.namespace);
        if !key.namespace.is_empty() && !self.objects.contains_key(&namespace) {
            let message = format!("namespaces \"{}\" not found", key.namespace);
            return ApplyInput::Failed(
                key,
                Failure::NotFound {
                    namespace: true,
                    message,
                },
            );
        }
        if application.object["data"]["a"] == json!("invalid") {
            return ApplyInput::Failed(key, Failure::Refused("data.a: Invalid value".to_owned()));
        }
        let there = self.objects.get(&key).cloned().unwrap_or_else(|| json!({}));
        if application.is_mark {
            assert_eq!(
                there["metadata"]["resourceVersion"],
                application.object["metadata"]["resourceVersion"]
            );
            self.put(&key, with(there, application.object.clone()));
            let object = read(self.objects[&key].clone());
            return ApplyInput::Applied(Box::new(application), Box::new(object));
        }
        let mut there = there;
        let own = with(fields(&application.object), json!({}));
        let mut entries: Vec<Value> = there["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let (former, others): (Vec<_>, Vec<_>) = entries
            .drain(..)
            .partition(|entry| entry["manager"] == json!(application.manager));
        for former in former {
            let others: Vec<_> = others.iter().map(|entry| &entry["fieldsV1"]).collect();
            abandon(&mut there, &former["fieldsV1"], &own, &others);
        }
        entries = others;
        entries.push(json!({ "manager": application.manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": own }));
        let mut object = with(there, application.object.clone());
        object["metadata"]["managedFields"] = json!(entries);
        if self.objects.get(&key) != Some(&object) {
            self.put(&key, object);
        }
        let object = read(self.objects[&key].clone());
        ApplyInput::Applied(Box::new(application), Box::new(object))
    }
}

/// Removes the fields that only `former` owned and that are not in `now`.
fn abandon(there: &mut Value, former: &Value, now: &Value, others: &[&Value]) {
    for (noted, former) in former.as_object().unwrap() {
        let Some(name) = noted.strip_prefix("f:") else {
            continue;
        };
        let owners: Vec<_> = others.iter().filter_map(|other| other.get(noted)).collect();
        match now.get(noted) {
            None if owners.is_empty() => {
                there.as_object_mut().map(|fields| fields.remove(name));
            }
            now => {
                if let Some(there) = there.get_mut(name) {
                    abandon(there, former, now.unwrap_or(&Value::Null), &owners);
                }
            }
        }
    }
}
