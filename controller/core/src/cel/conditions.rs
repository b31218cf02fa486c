//! `hasConditions` of OCM's CEL library (`open-cluster-management.conditions`). It returns true if
//! a status has any conditions.

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        types::{CelBool, CelList, CelMap, CelMapKey, DYN_TYPE},
        value::CowVal,
    },
};

/// The function's name.
pub(super) const HAS_CONDITIONS: &str = "hasConditions";

/// Declares `hasConditions(status)`.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(
        HAS_CONDITIONS,
        "status_has_conditions",
        vec![DYN_TYPE],
        has_conditions,
    )
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of an overload")]
fn has_conditions<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let status = args
        .first()
        .ok_or_else(ExecutionError::missing_argument_or_target)?;
    let key = CelMapKey::from("conditions");
    let conditions = status
        .as_ref()
        .downcast_ref::<CelMap<'v>>()
        .and_then(|status| status.inner().get(&key));
    let has_some = conditions
        .and_then(|conditions| conditions.as_ref().downcast_ref::<CelList<'v>>())
        .is_some_and(|conditions| !conditions.inner().is_empty());
    Ok(CowVal::owned(CelBool::from(has_some)))
}
