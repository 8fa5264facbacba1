//! The order of units and documents: a permutation that needs no memory.

/// Rounds of the Feistel network.
const ROUNDS: u64 = 6;

/// A pseudo-random permutation of `0..len`, a function of its key.
///
/// A Feistel network permutes the smallest even number of bits that holds `len`; what falls outside is
/// permuted again until it falls inside (cycle walking), at most four times on average.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permutation {
    len: u64,
    half: u32,
    key: u64,
}

impl Permutation {
    /// The permutation of `0..len` that belongs to `key`: the seed, and what tells this one from others.
    pub(super) fn new(len: u64, key: &[u64]) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let key = key.iter().fold(0, |key, part| mix(key ^ part));
        Permutation { len, half: bits.div_ceil(2).max(1), key }
    }

    /// What comes at `index`, which is below `len`.
    pub(super) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.len);
        let mut value = self.once(index);
        while value >= self.len {
            value = self.once(value);
        }
        value
    }

    fn once(&self, value: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half, value & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (mix(self.key ^ mix(right ^ (round << 56))) & mask));
        }
        left << self.half | right
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(len: u64, seed: u64, source: u64, epoch: u64) -> Vec<u64> {
        let permutation = Permutation::new(len, &[seed, source, epoch]);
        (0..len).map(|index| permutation.at(index)).collect()
    }

    #[test]
    fn every_document_comes_once() {
        for len in [1, 2, 3, 4, 5, 16, 17, 1000, 4097] {
            let mut seen = all(len, 42, 0, 0);
            seen.sort_unstable();
            assert_eq!(seen, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn seed_source_and_epoch_change_the_order() {
        let base = all(100, 42, 0, 0);
        assert_eq!(base, all(100, 42, 0, 0));
        assert_ne!(base, (0..100).collect::<Vec<_>>());
        for other in [all(100, 43, 0, 0), all(100, 42, 1, 0), all(100, 42, 0, 1)] {
            assert_ne!(base, other);
        }
    }
}
