//! One hash for all that must be the same on every machine and in every version.

/// FNV-1a, 64 bits: against accidents, not against malice.
pub fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    #[test]
    fn published_values() {
        assert_eq!(
            [fnv1a(""), fnv1a("a"), fnv1a("foobar")],
            [0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8]
        );
    }
}
