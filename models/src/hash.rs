//! A fast hash that is the same in every build and on every machine. It names contents within a simulation; it keeps nobody out.

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;

/// One step: both words into one.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ FIRST) * u128::from(b ^ SECOND);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the product")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

/// Hashes bytes under a seed. The length is part of what is hashed.
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let mut state = mix(seed, bytes.len() as u64);
    let mut pairs = bytes.chunks_exact(16);
    for pair in &mut pairs {
        let (low, high) = pair.split_at(8);
        let low = u64::from_le_bytes(low.try_into().expect("eight bytes"));
        let high = u64::from_le_bytes(high.try_into().expect("eight bytes"));
        state = mix(state ^ low, high.wrapping_add(state.rotate_left(23)));
    }
    let rest = pairs.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    mix(mix(state ^ word(low), word(high)), state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_byte_every_length_and_the_seed_count() {
        let mut seen = BTreeSet::new();
        for length in 0..40 {
            let mut bytes = vec![b'a'; length];
            assert!(seen.insert(hash(1, &bytes)) && seen.insert(hash(2, &bytes)), "length {length}");
            for at in 0..length {
                bytes[at] ^= 1;
                assert!(seen.insert(hash(1, &bytes)), "byte {at} of {length}");
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn the_values_are_frozen() {
        assert_eq!((hash(0, b""), hash(7, b"sixteen bytes and then some")), (12_107_780_377_559_480_869, 11_136_729_127_332_650_129));
    }
}
