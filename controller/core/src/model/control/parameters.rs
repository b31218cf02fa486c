//! Output parameters in a change. They are merged by name, because a merge patch replaces arrays as
//! a whole, and other parameters may have been set in the meantime.

use serde_json::Value;

const PATH: &str = "/outputs/parameters";

fn name(parameter: &Value) -> Option<&str> {
    parameter.get("name")?.as_str()
}

fn of(value: &Value) -> &[Value] {
    value
        .pointer(PATH)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Keeps only the parameters in `change`, a merge patch of `before`, that differ from `before`.
pub(crate) fn only_changed(before: &Value, change: &mut Value) {
    if let Some(Value::Array(parameters)) = change.pointer_mut(PATH) {
        parameters.retain(|parameter| !of(before).contains(parameter));
    }
}

/// Merges the parameters of `change` into `target` and removes them from `change`. The rest of
/// `change` is left for a merge patch.
pub(crate) fn put(target: &mut Value, change: &mut Value) {
    let Some(changed) = change
        .pointer_mut("/outputs")
        .and_then(Value::as_object_mut)
        .and_then(|outputs| outputs.remove("parameters"))
    else {
        return;
    };
    let Value::Array(changed) = changed else { return };
    let mut parameters = of(target).to_vec();
    for parameter in changed {
        match parameters
            .iter_mut()
            .find(|known| name(known) == name(&parameter))
        {
            Some(known) => *known = parameter,
            None => parameters.push(parameter),
        }
    }
    super::merge(
        target,
        &serde_json::json!({ "outputs": { "parameters": parameters } }),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_parameter_that_somebody_else_has_set_meanwhile_stays() {
        let unset = json!([{ "name": "a" }, { "name": "b" }]);
        let seen = json!({ "outputs": { "parameters": unset } });
        let mut change =
            json!({ "outputs": { "parameters": [{ "name": "a" }, { "name": "b", "value": "2" }] } });
        only_changed(&seen, &mut change);
        let mut now = json!({ "outputs": { "exitCode": "0", "parameters": [{ "name": "a", "value": "1" }, { "name": "b" }] } });
        put(&mut now, &mut change);
        let expected = json!([{ "name": "a", "value": "1" }, { "name": "b", "value": "2" }]);
        assert_eq!(now["outputs"], json!({ "exitCode": "0", "parameters": expected }));
        assert_eq!(change, json!({ "outputs": {} }));
    }
}
