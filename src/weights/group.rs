//! Names of tensors that differ in numbers only, as one pattern.

use std::collections::BTreeMap;

/// Names that differ in numbers only.
#[derive(Debug, PartialEq)]
pub struct Group {
    /// `model.layers.{0..3}.q_proj.weight`; the name itself where it is alone.
    pub pattern: String,
    /// The first of them in the list.
    pub first: usize,
}

/// The parts of a name, without its numbers.
type Key<'a> = Vec<Option<&'a str>>;
/// The first name of a group, and the least and the largest of each number.
type Members = (usize, Vec<[u64; 2]>);

/// Groups names, in the order of their first ones.
pub fn grouped(names: &[String]) -> Vec<Group> {
    let mut groups: BTreeMap<Key, Members> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        let number = |part: &str| part.parse::<u64>().ok();
        let key = name.split('.').map(|part| number(part).is_none().then_some(part)).collect();
        let numbers = name.split('.').filter_map(number);
        match groups.get_mut(&key) {
            None => drop(groups.insert(key, (at, numbers.map(|n| [n, n]).collect()))),
            Some((_, ranges)) => {
                for ([low, high], n) in ranges.iter_mut().zip(numbers) {
                    (*low, *high) = ((*low).min(n), (*high).max(n));
                }
            }
        }
    }
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|(key, (first, ranges))| {
            let mut ranges = ranges.into_iter();
            let parts =
                key.into_iter().map(|part| match (part, part.is_none().then(|| ranges.next()).flatten()) {
                    (Some(text), _) => text.to_owned(),
                    (None, Some([low, high])) if low != high => format!("{{{low}..{high}}}"),
                    (None, range) => range.map_or_else(String::new, |[n, _]| n.to_string()),
                });
            Group { pattern: parts.collect::<Vec<_>>().join("."), first }
        })
        .collect();
    groups.sort_by_key(|group| group.first);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        let names = ["b", "l.0.e.7.w", "l.2.e.3.w", "l.1.q", "a.5"].map(str::to_owned);
        let groups = grouped(&names);
        let shown: Vec<&str> = groups.iter().map(|group| group.pattern.as_str()).collect();
        assert_eq!(shown, ["b", "l.{0..2}.e.{3..7}.w", "l.1.q", "a.5"]);
        assert_eq!(groups[1].first, 1);
    }
}
