//! Suspension after an internal error: the one thing a session knows that its journal does not.
//!
//! Whoever runs the runtime catches what should never happen (a panic, a decision the host cannot carry out) and reports it here. From
//! then on the window stays as it is, the overlay included, and the host's own compaction is let through; what is certain is that no
//! original is touched. A commit that a person asked for ends it, and so does opening the session again. `docs/law.md`, "Suspension",
//! is the specification.

use super::Session;

impl Session {
    /// Stops whatever is done unasked. Gives the sentence that a person is to be told: once, `None` while it is suspended already.
    ///
    /// ```
    /// use fold_runtime::{config::Settings, session::Session};
    /// let mut session = Session::open(&[], &Settings::default(), 20_000)?;
    /// assert!(session.suspend("the bridge caught a panic").is_some_and(|told| told.contains("/fold")));
    /// assert_eq!((session.suspend("and another"), session.suspended()), (None, Some("the bridge caught a panic")));
    /// # Ok::<(), String>(())
    /// ```
    pub fn suspend(&mut self, reason: &str) -> Option<String> {
        if self.suspended.is_some() {
            return None;
        }
        self.suspended = Some(reason.to_owned());
        Some(format!(
            "Automatic folding is suspended after an internal error: {reason}. The window stays as it is, every original is in the journal, and the host's own compaction is let through. /fold tries again; so does opening the session again"
        ))
    }

    /// Why nothing is done unasked, while that is so. The host lets its own compaction through then.
    pub fn suspended(&self) -> Option<&str> {
        self.suspended.as_deref()
    }
}
