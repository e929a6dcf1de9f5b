//! Named random streams.
//!
//! Everything that is drawn separately has a stream of its own, so that one more draw in one place shifts no draw anywhere else and
//! an old seed keeps its meaning. Integers only: a session may not depend on how a processor rounds.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The longest name: what a ChaCha key has room for beside the seed.
const NAME_BYTES: usize = 24;

/// A ChaCha8 stream that belongs to one seed and one name.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of that name.
    ///
    /// The key *is* the seed followed by the name, so two streams are the same exactly if both are; ChaCha makes the rest unrelated.
    ///
    /// # Panics
    /// If the name is longer than 24 bytes or holds a NUL, which would pad it into another name.
    ///
    /// ```
    /// use fold_models::agent::Stream;
    /// let mut sizes = Stream::named(7, "sizes");
    /// assert_eq!(sizes.below(1_000), Stream::named(7, "sizes").below(1_000));
    /// ```
    pub fn named(seed: u64, name: &str) -> Self {
        assert!(name.len() <= NAME_BYTES, "a stream's name has at most {NAME_BYTES} bytes: {name:?}");
        assert!(!name.contains('\0'), "a stream's name holds no NUL: {name:?}");
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..8 + name.len()].copy_from_slice(name.as_bytes());
        Stream(ChaCha8Rng::from_seed(key))
    }

    /// A number below `n`, each as likely as the other up to one part in 2^64 / n.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "nothing is below 0");
        let product = u128::from(self.0.next_u64()) * u128::from(n);
        u64::try_from(product >> 64).expect("the upper half of a product")
    }

    /// A number from `low` to `high`, both possible.
    ///
    /// # Panics
    /// If `low` lies above `high`, or both span all 64 bits.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "there is nothing between {low} and {high}");
        low + self.below(high - low + 1)
    }

    /// True `part` times out of `whole`.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let at = self.below(choices.len() as u64);
        &choices[usize::try_from(at).expect("an index")]
    }

    /// One of them, as often as its weight says.
    ///
    /// # Panics
    /// If the weights add up to 0.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for &(weight, choice) in choices {
            if left < weight {
                return choice;
            }
            left -= weight;
        }
        unreachable!("a number below the sum of the weights lies in one of them")
    }

    /// A size from `low` to `high`, each doubling as likely as the next: real sizes are many small ones and a few huge ones.
    ///
    /// # Panics
    /// If `low` lies above `high`.
    pub fn size(&mut self, low: u64, high: u64) -> u64 {
        let octave = |number: u64| u64::BITS - number.leading_zeros();
        let bits = self.between(u64::from(octave(low)), u64::from(octave(high)));
        // Octave 0 is the number 0, octave b the numbers of b binary digits.
        let (first, last) = match bits {
            0 => (0, 0),
            bits => (1 << (bits - 1), u64::MAX >> (64 - bits)),
        };
        self.between(first.max(low), last.min(high))
    }

    /// A salt, short enough to stay exact in any JSON reader and readable in a plan.
    pub fn salt(&mut self) -> u64 {
        u64::from(self.0.next_u32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(stream: &mut Stream) -> Vec<u64> {
        (0..50).map(|_| stream.below(1_000_000)).collect()
    }

    #[test]
    fn streams_differ_by_name_and_by_seed_and_by_nothing_else() {
        let first = some(&mut Stream::named(1, "a"));
        assert_eq!(first, some(&mut Stream::named(1, "a")));
        assert_ne!(first, some(&mut Stream::named(1, "b")));
        assert_ne!(first, some(&mut Stream::named(2, "a")));
    }

    #[test]
    fn drawing_from_one_stream_shifts_no_other() {
        let mut busy = Stream::named(1, "busy");
        let mut quiet = Stream::named(1, "quiet");
        let undisturbed = some(&mut quiet.clone());
        some(&mut busy);
        assert_eq!(some(&mut quiet), undisturbed);
    }

    #[test]
    fn a_stream_is_the_same_on_every_machine_and_in_every_version() {
        let mut stream = Stream::named(42, "pinned");
        assert_eq!([stream.below(1 << 32), stream.salt(), stream.size(1, 1_000_000)], [1_353_086_739, 2_556_010_846, 315_165]);
    }

    #[test]
    fn every_number_is_reached_and_none_outside() {
        let mut stream = Stream::named(3, "bounds");
        let mut seen = [0; 5];
        for _ in 0..1_000 {
            seen[usize::try_from(stream.between(3, 7)).expect("small") - 3] += 1;
        }
        assert!(seen.iter().all(|count| (120..300).contains(count)), "{seen:?}");
    }

    #[test]
    fn sizes_fill_every_doubling_alike() {
        let mut stream = Stream::named(3, "sizes");
        let sizes: Vec<u64> = (0..4_000).map(|_| stream.size(0, 1 << 20)).collect();
        let small = sizes.iter().filter(|size| **size < 1 << 10).count();
        assert!((1_700..2_300).contains(&small), "{small} of 4,000 are below the middle doubling");
        assert!(sizes.contains(&0) && sizes.iter().all(|size| *size <= 1 << 20));
        assert!((0..100).all(|_| (100..=130).contains(&stream.size(100, 130))));
        assert_eq!(stream.size(9, 9), 9);
    }

    #[test]
    fn weights_are_kept() {
        let mut stream = Stream::named(3, "weights");
        let heavy = (0..1_000).filter(|_| stream.weighted(&[(1, false), (0, false), (3, true)])).count();
        assert!((680..820).contains(&heavy), "{heavy}");
    }

    #[test]
    #[should_panic(expected = "at most 24 bytes")]
    fn a_name_that_does_not_fit_is_refused() {
        let _ = Stream::named(1, "a name that is longer than a key");
    }
}
