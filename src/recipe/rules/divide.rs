//! The nearest values that divide, for advice.

/// The values nearest to `wanted`, below and above, that satisfy `fits`, in steps over the divisors of `whole`.
pub fn nearest_divisors(whole: u64, wanted: u64, fits: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut divisors = divisors(whole);
    divisors.retain(|divisor| fits(*divisor));
    let below = divisors.iter().rev().find(|divisor| **divisor < wanted);
    let above = divisors.iter().find(|divisor| **divisor > wanted);
    below.into_iter().chain(above).copied().collect()
}

/// Every divisor, sorted.
pub fn divisors(whole: u64) -> Vec<u64> {
    let root = whole.isqrt();
    // Values large enough to make this slow are no counts of experts or devices.
    let small: Vec<u64> = (1..=root.min(1 << 20)).filter(|divisor| whole.is_multiple_of(*divisor)).collect();
    let large = small.iter().rev().map(|divisor| whole / divisor).filter(|large| *large > root);
    small.iter().copied().chain(large).collect()
}

/// The multiples of `step` nearest to `wanted`, below and above, none of them 0.
pub fn nearest_multiples(step: u64, wanted: u64) -> Vec<u64> {
    if step == 0 {
        return Vec::new();
    }
    let below = wanted / step * step;
    [Some(below), below.checked_add(step)].into_iter().flatten().filter(|value| *value > 0).collect()
}

/// The greatest number that divides both; that of 0 and a number is the number.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `1, 2, 4 or 8`; of many only the first.
pub fn some(values: &[u64]) -> String {
    const MANY: usize = 12;
    match values {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] if values.len() <= MANY => {
            let first: Vec<_> = first.iter().map(u64::to_string).collect();
            format!("{} or {last}", first.join(", "))
        }
        _ => {
            let first: Vec<_> = values[..MANY].iter().map(u64::to_string).collect();
            format!("{}, …", first.join(", "))
        }
    }
}

/// `72 or 96`.
pub fn either(values: &[u64]) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_on_both_sides() {
        assert_eq!(nearest_divisors(288, 90, |_| true), [72, 96]);
        assert_eq!(nearest_divisors(288, 90, |ep| 64 % ep == 0), [32]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(gcd(96, 64), 32);
        assert_eq!(some(&divisors(45)), "1, 3, 5, 9, 15 or 45");
        assert_eq!(nearest_multiples(192, 200), [192, 384]);
        assert_eq!(nearest_multiples(192, 100), [192]);
    }
}
