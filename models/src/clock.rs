//! Time: virtual milliseconds, and what happens next.
//!
//! One queue orders a world. Two events of the same millisecond come out in the order they were put in, so that nothing depends on how
//! a container happens to order equals.

use fold_runtime::ports::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that only its queue moves. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// A clock that shows `now_ms`.
    pub fn at(now_ms: u64) -> Self {
        VirtualClock(Arc::new(AtomicU64::new(now_ms)))
    }

    /// Moves the clock.
    ///
    /// # Panics
    /// If it would run backwards.
    pub fn advance_to(&self, now_ms: u64) {
        assert!(now_ms >= self.now_ms(), "time does not run backwards: {} to {now_ms}", self.now_ms());
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is going to happen, in order of time and then of insertion.
///
/// ```
/// use fold_models::clock::EventQueue;
/// let mut queue = EventQueue::starting_at(1_000);
/// queue.after(20, "second");
/// queue.after(10, "first");
/// queue.after(20, "third");
/// let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
/// assert_eq!(order, [(1_010, "first"), (1_020, "second"), (1_020, "third")]);
/// ```
#[derive(Debug)]
pub struct EventQueue<T> {
    clock: VirtualClock,
    events: BTreeMap<(u64, u64), T>,
    inserted: u64,
}

impl<T> EventQueue<T> {
    /// An empty queue whose clock shows `now_ms`.
    pub fn starting_at(now_ms: u64) -> Self {
        EventQueue { clock: VirtualClock::at(now_ms), events: BTreeMap::new(), inserted: 0 }
    }

    /// The clock this queue moves.
    pub fn clock(&self) -> VirtualClock {
        self.clock.clone()
    }

    /// Puts an event at a time.
    ///
    /// # Panics
    /// If that time has passed.
    pub fn at(&mut self, at_ms: u64, event: T) {
        let now = self.clock.now_ms();
        assert!(at_ms >= now, "an event in the past: {at_ms}, and it is {now}");
        self.events.insert((at_ms, self.inserted), event);
        self.inserted += 1;
    }

    /// Puts an event so many milliseconds from now.
    pub fn after(&mut self, delay_ms: u64, event: T) {
        self.at(self.clock.now_ms().saturating_add(delay_ms), event);
    }

    /// Takes the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let ((at_ms, _), event) = self.events.pop_first()?;
        self.clock.advance_to(at_ms);
        Some((at_ms, event))
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing is going to happen.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_put_in_while_popping_keeps_its_place_among_equals() {
        let mut queue = EventQueue::starting_at(0);
        queue.at(5, 'a');
        queue.at(5, 'b');
        assert_eq!(queue.pop(), Some((5, 'a')));
        queue.after(0, 'c');
        assert_eq!(queue.len(), 2);
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some((5, 'b')), Some((5, 'c')), None]);
        assert!(queue.is_empty());
    }

    #[test]
    fn every_clone_of_the_clock_shows_the_time_of_the_last_event() {
        let mut queue = EventQueue::starting_at(3);
        let clock = queue.clock();
        queue.after(4, ());
        assert_eq!(clock.now_ms(), 3);
        queue.pop();
        assert_eq!(clock.now_ms(), 7);
    }

    #[test]
    #[should_panic(expected = "an event in the past")]
    fn an_event_in_the_past_is_refused() {
        EventQueue::starting_at(10).at(9, ());
    }
}
