//! What may change between two requests: nothing that a cause does not name, and nothing before the earliest thing it names.

use crate::Broken;
use crate::reference::is_notice;
use fold_models::host::Request;
use fold_models::shown::{Role, Shown};
use fold_runtime::config::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whose doing a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A commit of the runtime.
    Commit,
    /// The runtime retired peeks that had been read.
    PeekRetired,
    /// The runtime put right what another extension had torn apart.
    Recovery,
    /// A fold was opened or dissolved, because somebody asked for it.
    Expand,
    /// Open folds were closed.
    Refold,
    /// Old tool results were masked.
    Mask,
    /// The host compacted.
    Compaction,
    /// The host went elsewhere in the tree, or to a copy of the session.
    Navigation,
    /// The host omitted a failed attempt.
    HostOmit,
    /// Another extension edited an entry.
    ForeignEdit,
}

impl Cause {
    /// Whether the runtime did it.
    pub fn is_ours(self) -> bool {
        matches!(self, Cause::Commit | Cause::PeekRetired | Cause::Recovery | Cause::Expand | Cause::Refold | Cause::Mask)
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Commit => "commit",
            Cause::PeekRetired => "peek retired",
            Cause::Recovery => "recovery",
            Cause::Expand => "expand",
            Cause::Refold => "refold",
            Cause::Mask => "mask",
            Cause::Compaction => "compaction",
            Cause::Navigation => "navigation",
            Cause::HostOmit => "host omit",
            Cause::ForeignEdit => "foreign edit",
        }
    }
}

/// A recorded change of what is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose doing it is.
    pub cause: Cause,
    /// Positions on the branch that it names; `None` where it may change everything.
    pub targets: Option<BTreeSet<usize>>,
}

/// Whether the window of a request follows from that of the one before by appends and the changes recorded in between.
///
/// Costs nothing after appends alone; after a change, the window.
///
/// # Errors
/// [`Broken`]: `append_only` where something changed before the earliest target, `attributed` where nobody named what changed.
pub fn follows(before: &[Arc<Shown>], now: &[Arc<Shown>], request: Request, changes: &[Change]) -> Result<(), Broken> {
    if !request.rewrites() || changes.iter().any(|change| change.targets.is_none()) {
        return Ok(());
    }
    let named: BTreeSet<usize> = changes.iter().filter_map(|change| change.targets.as_ref()).flatten().copied().collect();
    let at = request.first_change;
    let first = [before.get(at), now.get(at)].into_iter().flatten().map(|shown| shown.at).min().unwrap_or(0);
    match named.first() {
        None => {
            let entry = before.get(at).map_or(String::new(), |shown| shown.source.id().to_owned());
            return Err(Broken::new(
                "attributed",
                "no change without a cause",
                format!("message {at} (entry {entry}) changed and nobody recorded why"),
            ));
        }
        Some(earliest) if first < *earliest => {
            return Err(Broken::new(
                "append_only",
                format!("nothing changes before position {earliest}, the earliest target"),
                format!("message {at}, at position {first} of the branch, changed"),
            ));
        }
        Some(_) => {}
    }
    let digests =
        |window: &[Arc<Shown>]| -> BTreeMap<(usize, Role), u64> { window.iter().map(|shown| ((shown.at, shown.role), shown.digest)).collect() };
    let (old, new) = (digests(before), digests(now));
    let last = before.iter().map(|shown| shown.at).max().unwrap_or(0);
    let changed = old.iter().filter(|(key, digest)| new.get(*key) != Some(*digest)).map(|(key, _)| key.0);
    let came = new.keys().filter(|key| key.0 <= last && !old.contains_key(*key)).map(|key| key.0);
    match changed.chain(came).find(|at| !named.contains(at)) {
        None => Ok(()),
        Some(at) => {
            Err(Broken::new("attributed", "every changed entry is named by one cause", format!("the entry at position {at} changed unnamed")))
        }
    }
}

/// No message of ours is in a window but where the settings ask for it.
///
/// # Errors
/// [`Broken`]: `no_carrier`.
pub fn no_notice(window: &[Arc<Shown>], settings: &Settings) -> Result<(), Broken> {
    match window.iter().find(|shown| !settings.pre_commit_notice && is_notice(&shown.source)) {
        None => Ok(()),
        Some(shown) => Err(Broken::new("no_carrier", "no notice where it is off", shown.source.id().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_models::host::{Host, ToolResult};
    use fold_models::tokens::TokenModel;
    use fold_runtime::session::Draft;

    /// A window that was sent, then edits of some of its entries (by position) and an append.
    fn verdict(edited: &[usize], named: Option<&[usize]>) -> Option<&'static str> {
        let mut host = Host::new(1, 0, TokenModel::new(1, 0));
        for number in 0..4 {
            host.user(&format!("\"question {number}\""));
        }
        host.request();
        let before = host.last_request().to_vec();
        let target = |at: usize| host.branch()[at].id().to_owned();
        let drafts: Vec<Draft> =
            edited.iter().map(|&at| Draft::ContextEdit { target: target(at), replacement: Some("\"another\"".into()) }).collect();
        host.boundary(&drafts).expect("edits of user messages");
        host.tool_result(&ToolResult { call_id: "c", tool: "ls", content: "[]", is_error: false });
        let request = host.request();
        let changes: Vec<Change> =
            named.iter().map(|named| Change { cause: Cause::Commit, targets: Some(named.iter().copied().collect()) }).collect();
        follows(&before, host.window(), request, &changes).err().map(|broken| broken.invariant)
    }

    #[test]
    fn appends_need_no_cause_and_a_named_change_has_one() {
        assert_eq!(verdict(&[], None), None);
        assert_eq!(verdict(&[1, 3], Some(&[1, 3])), None);
    }

    #[test]
    fn a_change_that_nobody_names_or_that_comes_before_the_earliest_target_is_broken() {
        assert_eq!(verdict(&[2], None), Some("attributed"));
        assert_eq!(verdict(&[1, 2], Some(&[1])), Some("attributed"));
        assert_eq!(verdict(&[1, 2], Some(&[2])), Some("append_only"));
    }
}
