//! Amounts of resources by name, as numbers that can be compared: what a Workflow asks for, and what
//! a cluster has.
//!
//! Not here: quantities as text (`quantity`), and the meaning of the amounts (`demand`, `room`).

use std::{borrow::Cow, cmp::Ordering, collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity::{from_thousandths, thousandths};

/// Maximum number of resources. Further ones are ignored.
const MOST: usize = 16;

/// Maximum length of the name of a resource in bytes, as Kubernetes allows it: prefix and name.
const LONGEST_NAME: usize = 253 + 1 + 63;

/// Bytes of a MiB.
const MIB: u64 = 1024 * 1024;

/// Name of the resource CPU.
pub(crate) const CPU: &str = "cpu";

/// Name of the resource memory.
pub(crate) const MEMORY: &str = "memory";

/// Amounts by the name of the resource: CPU in thousandths of a core, memory in bytes, extended
/// resources such as `nvidia.com/gpu` in thousandths. An amount that is absent is not known or not
/// asked for; one that is zero is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts(Vec<(Name, u64)>);

/// The name of a resource. The usual ones take no memory of their own.
pub(crate) type Name = Cow<'static, str>;

/// The name of a resource, without memory of its own if it is a usual one.
pub(crate) fn named(name: &str) -> Name {
    match name {
        CPU => Cow::Borrowed(CPU),
        MEMORY => Cow::Borrowed(MEMORY),
        other => Cow::Owned(other.to_owned()),
    }
}

impl Amounts {
    /// The amounts in the fields of a Kubernetes object. Those that cannot be read are absent. CPU and
    /// memory come before others, in the order of the names, if there are too many. Nodes list what
    /// they have nothing of, and volumes that no container requests.
    pub(crate) fn of(resources: &BTreeMap<String, Quantity>) -> Self {
        let mut amounts = Self::default();
        let others = resources.iter().filter(|(name, _)| {
            ![CPU, MEMORY].contains(&name.as_str()) && !name.starts_with("attachable-volumes-")
        });
        let others = others.filter_map(|(name, amount)| Some((name.as_str(), read(name, amount)?)));
        let first = [CPU, MEMORY].into_iter();
        let first = first.filter_map(|name| Some((name, read(name, resources.get(name)?)?)));
        for (name, amount) in first.chain(others.filter(|(_, amount)| *amount > 0)) {
            amounts.set(name, amount);
        }
        amounts
    }

    /// The amount of a resource, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        // The usual names are the very same text.
        let is_it = |known: &str| std::ptr::eq(known, name) || *known == *name;
        let (_, amount) = self.0.iter().find(|(known, _)| is_it(known))?;
        Some(*amount)
    }

    /// Sets an amount. Returns false if there are too many already, or if it is no name of a resource.
    pub(crate) fn set(&mut self, name: &str, amount: u64) -> bool {
        if !is_name(name) {
            return false;
        }
        match self.0.binary_search_by(|(known, _)| (**known).cmp(name)) {
            Ok(place) => {
                if let Some(known) = self.0.get_mut(place) {
                    known.1 = amount;
                }
            }
            Err(_) if self.0.len() >= MOST => return false,
            Err(place) => self.0.insert(place, (named(name), amount)),
        }
        true
    }

    /// All amounts, in the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// True if there is no amount at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Combines the amounts of both. An amount that one of them lacks counts as zero.
    fn combine(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) {
        for (name, amount) in other.iter() {
            let own = self.get(name).unwrap_or_default();
            self.set(name, with(own, amount));
        }
    }

    /// Adds the other amounts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    /// Subtracts the other amounts, down to zero, of resources that are there.
    pub(crate) fn lower(&mut self, other: &Self) {
        for (name, amount) in &mut self.0 {
            *amount = amount.saturating_sub(other.get(name).unwrap_or_default());
        }
    }

    /// Lowers each amount to `most`, if it is larger.
    pub(crate) fn limit(&mut self, most: u64) {
        for (_, amount) in &mut self.0 {
            *amount = most.min(*amount);
        }
    }

    /// Keeps the resources that `keeps` accepts.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| keeps(name));
    }

    /// Removes the resources of which there is nothing.
    pub(crate) fn retain_positive(&mut self) {
        self.0.retain(|(_, amount)| *amount > 0);
    }

    /// Those of resources that are also in `most`, each at most as large as there.
    pub(crate) fn within(&self, most: &Self) -> Self {
        let limited = self.0.iter();
        let limited =
            limited.filter_map(|(name, amount)| Some((name.clone(), *amount.min(&most.get(name)?))));
        Self(limited.collect())
    }

    /// Lowers each amount to the other one, if there is one that is smaller.
    pub(crate) fn lower_to(&mut self, most: &Self) {
        for (name, amount) in &mut self.0 {
            *amount = most.get(name).unwrap_or(u64::MAX).min(*amount);
        }
    }

    /// Raises each amount to the other one, if that is larger.
    pub(crate) fn raise(&mut self, other: &Self) {
        self.combine(other, u64::max);
    }

    /// Replaces each amount by the other one, if there is one.
    pub(crate) fn replace(&mut self, other: &Self) {
        self.combine(other, |_, amount| amount);
    }

    /// Each amount, multiplied by `factor` and divided by `divisor`, rounded up. A divisor of zero
    /// counts as one.
    pub(crate) fn scaled(&self, factor: u64, divisor: u64) -> Self {
        let scaled = |amount: u64| {
            let scaled = (u128::from(amount) * u128::from(factor)).div_ceil(u128::from(divisor.max(1)));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Self(
            self.0
                .iter()
                .map(|(name, amount)| (name.clone(), scaled(*amount)))
                .collect(),
        )
    }

    /// Amounts in bytes are rounded up to whole MiB, so that an average is short to read.
    pub(crate) fn rounded(mut self) -> Self {
        for (name, amount) in &mut self.0 {
            if parts(name) == 1 && *amount > MIB {
                *amount = amount.div_ceil(MIB).saturating_mul(MIB);
            }
        }
        self
    }

    /// Reads text such as `cpu=2,memory=4Gi,nvidia.com/gpu=1`.
    ///
    /// # Errors
    ///
    /// The part that cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut amounts = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let read = part.split_once('=').and_then(|(name, value)| {
                let amount = read(name.trim(), &Quantity(value.trim().to_owned()))?;
                Some((name.trim(), amount))
            });
            let is_set = read.is_some_and(|(name, amount)| amounts.set(name, amount));
            if !is_set {
                return Err(format!("{part:?} is not RESOURCE=QUANTITY"));
            }
        }
        Ok(amounts)
    }
}

/// True if a resource of Kubernetes can have this name. Members and users write names, which become a
/// part of texts.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_inner)
}

/// Compares the quotients of two amounts and sizes without a division. A quotient with the size zero
/// is larger than all others.
pub(crate) fn compare_shares(one: (u64, u64), other: (u64, u64)) -> Ordering {
    let product = |amount: u64, size: u64| u128::from(amount) * u128::from(size);
    match (one.1, other.1) {
        (0, 0) => Ordering::Equal,
        (0, _) => Ordering::Greater,
        (_, 0) => Ordering::Less,
        _ => product(one.0, other.1).cmp(&product(other.0, one.1)),
    }
}

/// True for an extended resource such as `nvidia.com/gpu`.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/')
}

/// The number of parts into which a unit of a resource is divided. Fractions of a byte mean nothing,
/// and sums of them would not fit.
pub(crate) fn parts(name: &str) -> u64 {
    if name == CPU || is_extended(name) { 1000 } else { 1 }
}

/// Reads a quantity of a resource. `None` if it is no quantity, is negative, or is too large.
pub(crate) fn read(name: &str, quantity: &Quantity) -> Option<u64> {
    Some(thousandths(quantity)?.div_ceil(1000 / parts(name)))
}

/// An amount of a resource as Kubernetes formats it: `1500m`, `4Gi`.
pub(crate) fn quantity(name: &str, amount: u64) -> String {
    from_thousandths(u128::from(amount) * u128::from(1000 / parts(name)), name != CPU)
}

impl fmt::Display for Amounts {
    /// The text that `Amounts::parse` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, amount)) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{name}={}", quantity(name, amount))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts(text: &str) -> Amounts {
        Amounts::parse(text).unwrap()
    }

    #[test]
    fn amounts_are_read_and_written_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("", ""),
            ("cpu=2", "cpu=2"),
            (" memory = 4096Mi , cpu=1500m,", "cpu=1500m,memory=4Gi"),
            ("nvidia.com/gpu=1,cpu=0.5", "cpu=500m,nvidia.com/gpu=1"),
            ("cpu=1,cpu=2", "cpu=2"),
        ] {
            assert_eq!(amounts(text).to_string(), expected, "{text}");
        }
        for text in [
            "cpu", "cpu=", "=4", "cpu=much", "cpu=-1", "cpu:4", "a\"b=1", "a b=1", "\u{e9}=1",
        ] {
            assert!(Amounts::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_number_of_resources_and_the_length_of_their_names_are_limited() {
        let many: Vec<String> = (0..100).map(|number| format!("r{number:03}=1")).collect();
        assert!(Amounts::parse(&many.join(",")).is_err());
        let name = |one: &String| one.trim_end_matches("=1").to_owned();
        let many = many.iter().map(|one| (name(one), Quantity("1".to_owned())));
        assert_eq!(Amounts::of(&many.collect()).iter().count(), MOST);
        assert!(Amounts::parse(&format!("{}=1", "r".repeat(LONGEST_NAME + 1))).is_err());
    }

    #[test]
    fn resources_that_no_pod_can_get_push_out_no_other() {
        let none = (0..20).map(|number| (format!("a.example/r{number:02}"), "0"));
        let volumes = (0..20).map(|number| (format!("attachable-volumes-{number}"), "39"));
        let more = (0..20).map(|number| (format!("b.example/r{number:02}"), "1"));
        let known = [("cpu", "4"), ("memory", "1Gi"), ("nvidia.com/gpu", "2")];
        let known = known.map(|(name, amount)| (name.to_owned(), amount));
        let of = |all: &mut dyn Iterator<Item = (String, &str)>| {
            let all = all.map(|(name, amount)| (name, Quantity(amount.to_owned())));
            Amounts::of(&all.collect())
        };
        let without = of(&mut none.chain(volumes).chain(known.clone()));
        assert_eq!(without.to_string(), "cpu=4,memory=1Gi,nvidia.com/gpu=2");
        let limited = of(&mut more.chain(known));
        assert_eq!(
            (limited.get(CPU), limited.get(MEMORY)),
            (Some(4000), Some(1 << 30))
        );
    }

    #[test]
    fn amounts_are_added_lowered_raised_and_scaled() {
        let change = |change: fn(&mut Amounts, &Amounts)| {
            let mut changed = amounts("cpu=2,memory=1Gi");
            change(&mut changed, &amounts("cpu=3,gpu=1"));
            changed.to_string()
        };
        assert_eq!(change(Amounts::add), "cpu=5,gpu=1,memory=1Gi");
        assert_eq!(change(Amounts::lower), "cpu=0,memory=1Gi");
        assert_eq!(change(Amounts::raise), "cpu=3,gpu=1,memory=1Gi");
        assert_eq!(amounts("cpu=1").scaled(3, 2), amounts("cpu=1500m"));
        assert_eq!(amounts("cpu=1m").scaled(1, 3), amounts("cpu=1m"));
        assert_eq!(amounts("cpu=1").scaled(1, 0), amounts("cpu=1"));
    }

    proptest! {
        #[test]
        fn shares_are_compared_as_their_quotients(one in (0_u64..50, 0_u64..9), other in (0_u64..50, 0_u64..9)) {
            let share = |(amount, size): (u64, u64)| match size {
                0 => f64::INFINITY,
                // Numbers as small as these are exact.
                _ => f64::from(u32::try_from(amount).unwrap()) / f64::from(u32::try_from(size).unwrap()),
            };
            prop_assert_eq!(Some(compare_shares(one, other)), share(one).partial_cmp(&share(other)));
        }
    }
}
