//! Leaves the fields that a ManifestWork ignores as they are on the cluster.
//!
//! An apply that omits a field deletes it if only our manager owns it. A field that our manager owns is
//! therefore sent: with `OnSpokeChange` as the manifest has it, otherwise with its present value. A field
//! that only others own is left out. An element of a list that is not on the cluster is sent whole. An element of a list is found on the cluster by the keys by which
//! `managedFields` names it, because others may add elements. Not here: drift (`drift`).

use std::{
    collections::{HashMap, hash_map::Entry},
    ptr,
};

use argosy_api::manifest_work::IgnoreFields;
use serde_json::{Map, Value};

use super::{
    drift::{Elements, NEVER_OWNED, STEP, Steps, by_owner, field, is_whole},
    jsonpath::{JsonPath, Segment},
    object_view::ObjectView,
};

/// Removes the fields from `wanted` that `rules` leave as they are in `there`, or gives them their present
/// values. `is_applied` is true if the same manifest was applied before.
///
/// # Errors
///
/// If a path cannot be parsed, if an element could be several of the cluster's, or if this takes too many
/// steps.
pub(super) fn without_ignored(
    mut wanted: Value,
    rules: &[IgnoreFields],
    there: &ObjectView,
    manager: &str,
    is_applied: bool,
) -> Result<Value, String> {
    if rules.is_empty() {
        return Ok(wanted);
    }
    let live = there.to_value();
    let (ours, others) = by_owner(there.managed_fields(), manager);
    let owns_any = |fields: &&Value| !is_whole(fields);
    let root = Place {
        live: Some(&live),
        ours: ours.as_ref().filter(owns_any),
        others: others.iter().filter(owns_any).collect(),
        is_inside: false,
        is_new: false,
        level: Level::Root,
    };
    let mut search = Search {
        is_applied,
        has_owners: root.is_divided(),
        is_on_change: false,
        named: HashMap::new(),
        live: HashMap::new(),
        steps: Steps::default(),
    };
    for rule in rules {
        search.is_on_change = rule.condition == "OnSpokeChange";
        for path in &rule.json_paths {
            let path = JsonPath::parse(path)?;
            search.leave(path.segments(), &mut wanted, &root)?;
        }
    }
    Ok(wanted)
}

/// The owned part of a value that is owned as a whole.
static WHOLE: Value = Value::Null;

/// The counterpart of a value on the cluster, and its owners.
struct Place<'a> {
    live: Option<&'a Value>,
    /// The part of it that our manager owns.
    ours: Option<&'a Value>,
    /// The parts of it that each other manager owns.
    others: Vec<&'a Value>,
    /// True below a value that another manager owns as a whole. Whatever is left out there is removed.
    is_inside: bool,
    /// True below an element of a list that is not on the cluster.
    is_new: bool,
    level: Level,
}

#[derive(Clone, Copy)]
enum Level {
    Root,
    Metadata,
    Below,
}

impl<'a> Place<'a> {
    /// The parts that other managers own, except those that are owned as a whole.
    fn divided(&self) -> impl Iterator<Item = &'a Value> {
        self.others.iter().copied().filter(|part| !is_whole(part))
    }

    /// True if some manager owns fields or elements of the value. Another one that owns it as a whole then
    /// owns none of these: it has applied it without any.
    fn is_divided(&self) -> bool {
        let mut parts = self.ours.iter().chain(&self.others);
        parts.any(|part| !is_whole(part))
    }

    /// True for what is below the value, if another manager owns all of it.
    fn is_below_whole(&self) -> bool {
        self.is_inside || (!self.is_divided() && !self.others.is_empty())
    }
}

/// The elements of lists, by the address of the owned part that names them. Many values may be in one list.
type Named<'a> = HashMap<*const Value, Elements<'a>>;

/// The way through one object.
struct Search<'a> {
    is_applied: bool,
    /// True if it is known who owns the fields of the object.
    has_owners: bool,
    /// True for `OnSpokeChange`, false for `OnSpokePresent`.
    is_on_change: bool,
    named: Named<'a>,
    /// The elements of lists on the cluster, by the addresses of such a part and of the list.
    live: HashMap<(*const Value, *const Value), Elements<'a>>,
    steps: Steps,
}

impl<'a> Search<'a> {
    /// Leaves what `path` selects in `wanted` as it is on the cluster. True if `wanted` itself is to be
    /// left out.
    fn leave(&mut self, path: &[Segment], wanted: &mut Value, place: &Place<'a>) -> Result<bool, String> {
        let is_ours_in_part = place.ours.is_some() && place.is_divided() && children(wanted) > 0;
        let is_divided = is_ours_in_part || matches!(place.level, Level::Metadata);
        let (segment, rest) = match path {
            [segment, rest @ ..] => (segment, rest),
            // Of the fields below, some may be ours.
            [] if is_divided => (&Segment::All, path),
            [] => return self.leave_whole(wanted, place),
        };
        self.take(children(wanted) + place.others.len())?;
        let mut problem = None;
        let mut stays = |is_left_out: Result<bool, String>| match is_left_out {
            Ok(is_left_out) => !is_left_out,
            Err(error) => {
                problem = Some(error);
                true
            }
        };
        match wanted {
            Value::Object(fields) => fields.retain(|name, value| {
                !segment.selects_field(name) || stays(self.leave_field(rest, value, place, name))
            }),
            Value::Array(items) => {
                let (length, mut next) = (items.len(), 0);
                items.retain_mut(|item| {
                    let index = next;
                    next += 1;
                    !segment.selects_item(item, index, length)
                        || stays(self.leave_item(rest, item, place, index))
                });
            }
            _ => {}
        }
        problem.map_or_else(|| Ok(path.is_empty() && children(wanted) == 0), Err)
    }

    /// Leaves a value that has one owner. True if it is to be left out.
    fn leave_whole(&mut self, wanted: &mut Value, place: &Place<'a>) -> Result<bool, String> {
        self.take(size(wanted) + place.live.map_or(0, size))?;
        let is_ours = place.ours.is_some();
        let is_unchanged = match place.live {
            // The API server has set what nobody owns, by default.
            Some(live) => {
                live == wanted || (self.has_owners && place.others.is_empty() && !is_ours && !place.is_inside)
            }
            // Somebody may have removed it since it was applied.
            None => !self.is_applied,
        };
        match place.live {
            None if place.is_new => Ok(false),
            _ if self.is_on_change && (is_unchanged || (is_ours && !place.is_inside)) => Ok(false),
            Some(live) if is_ours || place.is_inside => {
                *wanted = live.clone();
                Ok(false)
            }
            _ => Ok(!is_ours),
        }
    }

    fn leave_field(
        &mut self,
        path: &[Segment],
        wanted: &mut Value,
        parent: &Place<'a>,
        name: &str,
    ) -> Result<bool, String> {
        self.take((2 + parent.others.len()) * (1 + name.len() / STEP))?;
        let is_never_owned = match parent.level {
            Level::Root => matches!(name, "apiVersion" | "kind" | "status"),
            Level::Metadata => NEVER_OWNED.contains(&name),
            Level::Below => false,
        };
        let place = Place {
            live: parent.live.and_then(|live| live.get(name)),
            ours: match parent.ours {
                _ if is_never_owned => Some(&WHOLE),
                Some(ours) if !is_whole(ours) => field(ours, name),
                _ if parent.is_divided() => None,
                ours => ours,
            },
            others: parent.divided().filter_map(|part| field(part, name)).collect(),
            is_inside: parent.is_below_whole(),
            is_new: parent.is_new,
            level: match parent.level {
                Level::Root if name == "metadata" => Level::Metadata,
                _ => Level::Below,
            },
        };
        self.leave(path, wanted, &place)
    }

    fn leave_item(
        &mut self,
        path: &[Segment],
        wanted: &mut Value,
        list: &Place<'a>,
        index: usize,
    ) -> Result<bool, String> {
        let live = self.live_item(list, index, wanted)?;
        let item = live.unwrap_or(wanted);
        let ours = match list.ours {
            Some(ours) if !is_whole(ours) => self.part(ours, item)?,
            _ if list.is_divided() => None,
            ours => ours,
        };
        let mut others = Vec::new();
        for part in list.divided() {
            others.extend(self.part(part, item)?);
        }
        let place = Place {
            live,
            ours,
            others,
            is_inside: list.is_below_whole(),
            is_new: list.is_new || (live.is_none() && !path.is_empty()),
            level: Level::Below,
        };
        self.leave(path, wanted, &place)
    }

    /// The element of a list on the cluster that `item` is. If no manager names the elements, it is the one
    /// at the same place.
    fn live_item(
        &mut self,
        list: &Place<'a>,
        index: usize,
        item: &Value,
    ) -> Result<Option<&'a Value>, String> {
        let Some((there, items)) = list.live.and_then(|live| Some((live, live.as_array()?))) else {
            return Ok(None);
        };
        let ours = list.ours.into_iter().filter(|part| !is_whole(part));
        for part in ours.chain(list.divided()) {
            let named = named(&mut self.named, part, &mut self.steps)?;
            if !named.are_named() {
                continue;
            }
            let elements = match self.live.entry((ptr::from_ref(part), ptr::from_ref(there))) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => {
                    vacant.insert(named.of_items(items, &mut self.steps).ok_or_else(too_long)?)
                }
            };
            let here = items.get(index);
            let found = match elements.like(item, &mut self.steps) {
                [] => None,
                [one] => Some(*one),
                several if !named.has_keys(item) => return Err(ambiguous(item, several.len())),
                // Some lists may have several elements with the same keys.
                several => several
                    .iter()
                    .copied()
                    .find(|one| here.is_some_and(|here| ptr::eq(*one, here))),
            };
            return self.take(0).map(|()| found);
        }
        Ok(items.get(index))
    }

    /// The owned part of an element of a list, of which `list` is the owned part.
    fn part(&mut self, list: &'a Value, item: &Value) -> Result<Option<&'a Value>, String> {
        let elements = named(&mut self.named, list, &mut self.steps)?;
        let found = elements.like(item, &mut self.steps).first().copied();
        self.take(1).map(|()| found)
    }

    fn take(&mut self, count: usize) -> Result<(), String> {
        if self.steps.take(count) {
            Ok(())
        } else {
            Err(too_long())
        }
    }
}

/// The elements that the owned part of a list names.
fn named<'n, 'a>(
    known: &'n mut Named<'a>,
    list: &'a Value,
    steps: &mut Steps,
) -> Result<&'n mut Elements<'a>, String> {
    match known.entry(ptr::from_ref(list)) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(vacant) => {
            let elements = match list.as_object() {
                Some(children) => Elements::of(children, steps).ok_or_else(too_long)?,
                None => Elements::default(),
            };
            Ok(vacant.insert(elements))
        }
    }
}

fn too_long() -> String {
    "the paths of ignoreFields take too many steps in this object; use fewer or narrower ones".to_owned()
}

fn ambiguous(item: &Value, count: usize) -> String {
    // A condition has at most 32 KiB, and names of fields have no limit.
    let names = item.as_object().into_iter().flat_map(Map::keys).take(8);
    let names: Vec<String> = names.map(|name| name.chars().take(64).collect()).collect();
    format!(
        "the paths of ignoreFields lead into an element with the fields {names:?}, which could be {count} \
         elements of its list on the cluster; set all of its keys"
    )
}

/// The number of fields or elements of a value.
fn children(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    }
}

/// The number of steps that it takes to compare or copy a value.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len() / STEP,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => {
            let sizes = fields.iter().map(|(name, value)| name.len() / STEP + size(value));
            sizes.sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
