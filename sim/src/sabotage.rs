//! Planted bugs at the seam between runtime and world: a decision, an observed entry or an edit is tampered with on its way.
//!
//! A harness that has not been seen to fail proves nothing. Each bug here imitates one that a context manager could have, and a
//! test proves that the simulator finds it; nothing has to be rebuilt for that.

use fold_models::store::MemoryStore;
use fold_runtime::config::Settings;
use fold_runtime::fold::clip_content;
use fold_runtime::journal::{Digest, Entry, Kind, Role, StopReason};
use fold_runtime::ports::{ObjectStore, StoreError};
use fold_runtime::session::{COMMIT_RECORD, Commit, DECISION, Decision, Deferral, Draft, Moment, Original, RecoverError, Session, Trigger};
use fold_runtime::window::Size;
use serde_json::Value;
use std::collections::BTreeMap;

mod mask;

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sabotage {
    /// A commit omits a tool result that is in no fold.
    DropsResult,
    /// A placeholder mentions its neighbour.
    NamesNeighbour,
    /// A mark edits the window.
    MarkEdits,
    /// A commit below the trigger.
    CommitsBelowTrigger,
    /// A record holds the digest of other bytes.
    WrongDigest,
    /// A measurement from before a commit is used after it.
    StaleMeasurement,
    /// A brief over its bound.
    LongBrief,
    /// A placeholder in an assistant message.
    AssistantCarrier,
    /// The stop test ignores consolidation.
    IgnoresConsolidation,
    /// A user message is hidden while a person's words are below their share.
    HidesUser,
    /// Text of a tool stands unquoted in a user message.
    UnquotedText,
    /// A message that called is omitted before its results.
    ReversesEdits,
    /// A setting that holds tools is forgotten at the commit.
    ForgetsHold,
    /// A commit stops half way to the target it states.
    StopsEarly,
    /// A request over the fence is sent.
    SendsOverFence,
    /// What a commit promised and did not write is forgotten when the session is opened again.
    ForgetsOverlay,
    /// A commit folds what is pinned.
    FoldsPin,
    /// A commit folds what was withdrawn.
    ForgetsUnmark,
    /// A session that was opened again does not know what was supplied as a brief.
    ForgetsBrief,
    /// A commit clips a result that is held.
    ClipsHeld,
    /// A pin edits the window.
    PinEdits,
    /// A peek is retired before a good answer has followed it.
    RetiresUnread,
    /// What another extension edits is put right again and again.
    Fights,
    /// A second copy that stands in for the journal is given back unchecked.
    UncheckedCopy,
    /// A second copy that the disk refused is taken for written.
    TakenForSaved,
    /// Folding goes on while it is suspended.
    FoldsSuspended,
    /// A commit that a person asked for does not end a suspension.
    SuspendsForEver,
    /// A run goes on after a person stopped it.
    ContinuesAborted,
    /// A request that was refused twice is sent a third time.
    RetriesAgain,
    /// A session that is open goes on with the settings it was opened with.
    KeepsSettings,
    /// A boundary that another extension drops is tried again and again.
    Insists,
    /// A fold is expanded although an original is not what was folded.
    ExpandsUnchecked,
    /// A message says that the band is near, although nobody asked for that.
    NoticesUnasked,
    /// What was expanded is folded again before it is due.
    RefoldsEarly,
    /// The host's own compaction is let through whenever it asks.
    LetsHostCompact,
    /// The host's own compaction is held back even where nothing else makes room.
    HoldsBackForEver,
    /// A result of an excluded tool is masked.
    MasksExcluded,
    /// A result in the protected turns is masked.
    MasksRecent,
    /// What is masked is masked again at every turn's end.
    MasksAgain,
    /// Results are masked below the trigger.
    MasksEarly,
    /// A placeholder names a call that gives nothing back.
    MasksUnderWrongCall,
}

impl Sabotage {
    /// All of them, with the names they go by.
    pub const ALL: [(Sabotage, &'static str); 41] = [
        (Sabotage::DropsResult, "drops-result"),
        (Sabotage::NamesNeighbour, "names-neighbour"),
        (Sabotage::MarkEdits, "mark-edits"),
        (Sabotage::CommitsBelowTrigger, "commits-below-trigger"),
        (Sabotage::WrongDigest, "wrong-digest"),
        (Sabotage::StaleMeasurement, "stale-measurement"),
        (Sabotage::LongBrief, "long-brief"),
        (Sabotage::AssistantCarrier, "assistant-carrier"),
        (Sabotage::IgnoresConsolidation, "ignores-consolidation"),
        (Sabotage::HidesUser, "hides-user"),
        (Sabotage::UnquotedText, "unquoted-text"),
        (Sabotage::ReversesEdits, "reverses-edits"),
        (Sabotage::ForgetsHold, "forgets-hold"),
        (Sabotage::StopsEarly, "stops-early"),
        (Sabotage::SendsOverFence, "sends-over-fence"),
        (Sabotage::ForgetsOverlay, "forgets-overlay"),
        (Sabotage::FoldsPin, "folds-pin"),
        (Sabotage::ForgetsUnmark, "forgets-unmark"),
        (Sabotage::ForgetsBrief, "forgets-brief"),
        (Sabotage::ClipsHeld, "clips-held"),
        (Sabotage::PinEdits, "pin-edits"),
        (Sabotage::RetiresUnread, "retires-unread"),
        (Sabotage::Fights, "fights"),
        (Sabotage::UncheckedCopy, "unchecked-copy"),
        (Sabotage::TakenForSaved, "taken-for-saved"),
        (Sabotage::FoldsSuspended, "folds-suspended"),
        (Sabotage::SuspendsForEver, "suspends-for-ever"),
        (Sabotage::ContinuesAborted, "continues-aborted"),
        (Sabotage::RetriesAgain, "retries-again"),
        (Sabotage::KeepsSettings, "keeps-settings"),
        (Sabotage::Insists, "insists"),
        (Sabotage::ExpandsUnchecked, "expands-unchecked"),
        (Sabotage::NoticesUnasked, "notices-unasked"),
        (Sabotage::RefoldsEarly, "refolds-early"),
        (Sabotage::LetsHostCompact, "lets-host-compact"),
        (Sabotage::HoldsBackForEver, "holds-back-for-ever"),
        (Sabotage::MasksExcluded, "masks-excluded"),
        (Sabotage::MasksRecent, "masks-recent"),
        (Sabotage::MasksAgain, "masks-again"),
        (Sabotage::MasksEarly, "masks-early"),
        (Sabotage::MasksUnderWrongCall, "masks-under-wrong-call"),
    ];
}

impl std::str::FromStr for Sabotage {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Sabotage::ALL.into_iter().find(|(_, known)| *known == name);
        found.map(|(sabotage, _)| sabotage).ok_or_else(|| {
            let names: Vec<_> = Sabotage::ALL.into_iter().map(|(_, name)| name).collect();
            format!("there is no sabotage \"{name}\"; there are {}", names.join(", "))
        })
    }
}

/// The one who plants it.
pub(crate) struct Saboteur {
    what: Sabotage,
    boundaries: usize,
    /// The last usage seen, and whether a commit came after it.
    usage: Option<String>,
    committed: bool,
}

impl Saboteur {
    pub fn new(what: Sabotage) -> Self {
        Saboteur { what, boundaries: 0, usage: None, committed: false }
    }

    /// What the runtime is shown instead of an entry.
    pub fn observed(&mut self, entry: &Entry) -> Option<Entry> {
        if self.what != Sabotage::StaleMeasurement {
            return None;
        }
        if matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD) {
            self.committed = true;
        }
        let usage = entry.message_field("usage").filter(|_| entry.is_good_answer())?;
        let stale = self.usage.replace(usage.to_owned());
        let stale = stale.filter(|_| std::mem::take(&mut self.committed))?;
        Entry::parse(&entry.line().replacen(usage, &stale, 1)).ok()
    }

    /// What the runtime is said to have decided.
    pub fn decides(&mut self, honest: Decision, moment: Moment, branch: &[Entry], settings: &Settings, window: u64) -> Decision {
        self.boundaries += 1;
        match (self.what, honest) {
            (Sabotage::CommitsBelowTrigger, Decision::Quiet) if self.boundaries.is_multiple_of(8) => {
                let mut eager = settings.clone();
                eager.thresholds.max_target_ppm = eager.thresholds.min_target_ppm + 1;
                Session::open(branch, &eager, window).map_or(Decision::Quiet, |session| match session.boundary(moment) {
                    commit @ Decision::Commit(_) => commit,
                    _ => Decision::Quiet,
                })
            }
            (Sabotage::IgnoresConsolidation, Decision::Commit(commit)) if commit.parents > 0 => {
                let mut flat = settings.clone();
                flat.thresholds.consolidate_after = usize::MAX / 2;
                Session::open(branch, &flat, window).map_or(Decision::Commit(commit), |session| session.boundary(moment))
            }
            (Sabotage::ForgetsHold, Decision::Commit(commit)) if !settings.blacklist_auto_fold_tools.is_empty() => {
                let mut free = settings.clone();
                free.blacklist_auto_fold_tools.clear();
                Session::open(branch, &free, window).map_or(Decision::Commit(commit), |session| session.boundary(moment))
            }
            (Sabotage::FoldsPin | Sabotage::ForgetsUnmark | Sabotage::Fights, honest @ Decision::Commit(_)) => {
                let forgotten = without(branch, |entry| match self.what {
                    Sabotage::FoldsPin => decides(entry, "pin"),
                    Sabotage::ForgetsUnmark => decides(entry, "unmark"),
                    _ => entry.field("data").is_some_and(|data| data.contains("\"trigger\":\"recovery\"")),
                });
                match Session::open(&forgotten, settings, window).map(|session| session.boundary(moment)) {
                    Ok(Decision::Commit(commit)) => Decision::Commit(commit),
                    _ => honest,
                }
            }
            (Sabotage::FoldsSuspended, honest @ Decision::Deferred(Deferral::Suspended)) => {
                Session::open(branch, settings, window).map_or(honest, |session| session.boundary(moment))
            }
            (Sabotage::ContinuesAborted, honest) if moment == Moment::TurnEnd && was_aborted(branch) => {
                match Session::open(branch, settings, window).map(|session| session.boundary(Moment::Refused)) {
                    Ok(commit @ Decision::Commit(_)) => commit,
                    _ => honest,
                }
            }
            (Sabotage::RetriesAgain, honest @ Decision::Deferred(Deferral::RefusedAgain)) => {
                // As if a person had spoken since; the decision is to fit the branch as it is.
                let spoken = [branch, &[Entry::parse(SPOKEN).expect("a message")]].concat();
                match Session::open(&spoken, settings, window).map(|session| session.boundary(moment)) {
                    Ok(commit @ Decision::Commit(_)) => commit,
                    _ => honest,
                }
            }
            (Sabotage::NoticesUnasked, Decision::Quiet) => {
                let mut telling = settings.clone();
                telling.pre_commit_notice = true;
                Session::open(branch, &telling, window).map_or(Decision::Quiet, |session| session.boundary(moment))
            }
            (Sabotage::RefoldsEarly, honest @ Decision::Commit(_)) => {
                // As if eight more answers had followed.
                let read = Entry::parse(READ).expect("an answer");
                let later = [branch, &vec![read; 8]].concat();
                match Session::open(&later, settings, window).map(|session| session.boundary(moment)) {
                    Ok(Decision::Commit(commit)) if commit.refolded > 0 => Decision::Commit(commit),
                    _ => honest,
                }
            }
            (Sabotage::RetiresUnread, Decision::Quiet) => {
                let read = Entry::parse(READ).expect("an answer");
                let branch = [branch, &[read]].concat();
                match Session::open(&branch, settings, window).map(|session| session.boundary(moment)) {
                    Ok(Decision::Commit(commit)) if commit.trigger == Trigger::Peek => Decision::Commit(commit),
                    _ => Decision::Quiet,
                }
            }
            (Sabotage::ClipsHeld, Decision::Commit(mut commit)) if commit.left == 0 && writes_its_own(&commit) => {
                let untouched = |id: &str| !commit.drafts.iter().any(|draft| matches!(draft, Draft::ContextEdit { target, .. } if target == id));
                let edited = |id: &str| branch.iter().any(|entry| matches!(entry.kind(), Kind::ContextEdit { target, .. } if **target == *id));
                let held = branch.iter().find_map(|entry| match entry.kind() {
                    Kind::Message(Role::ToolResult { tool, .. })
                        if settings.blacklist_auto_fold_tools.contains(&tool.to_string_lossy()) && untouched(entry.id()) && !edited(entry.id()) =>
                    {
                        Some((entry.id().to_owned(), clip_content(entry.content(), entry.id(), 400, 200)?))
                    }
                    _ => None,
                });
                if let Some((target, content)) = held {
                    commit.drafts.push(Draft::ContextEdit { target, replacement: Some(content) });
                    seal(&mut commit.drafts);
                }
                Decision::Commit(commit)
            }
            (Sabotage::StopsEarly, Decision::Commit(commit)) if commit.shortfall.is_none() => {
                let mut lazy = settings.clone();
                lazy.thresholds.min_target_ppm = lazy.thresholds.min_target_ppm.midpoint(lazy.thresholds.max_target_ppm);
                match Session::open(branch, &lazy, window).map(|session| session.boundary(moment)) {
                    Ok(Decision::Commit(early)) => Decision::Commit(Commit { target: commit.target, shortfall: None, ..early }),
                    _ => Decision::Commit(commit),
                }
            }
            // What is written later, or was promised earlier, is out of reach here.
            (_, Decision::Commit(mut commit)) if commit.left == 0 && writes_its_own(&commit) => {
                self.tamper(&mut commit, branch);
                Decision::Commit(commit)
            }
            (_, decision) => decision,
        }
    }

    /// Whether a request that must not be sent is sent.
    pub fn sends_all_the_same(&self) -> bool {
        self.what == Sabotage::SendsOverFence
    }

    /// Whether a session that was opened again shows nothing over its branch.
    pub fn forgets_overlay(&self) -> bool {
        self.what == Sabotage::ForgetsOverlay
    }

    /// What a session that is opened again reads instead of its branch.
    pub fn opens(&self, branch: &[Entry]) -> Option<Vec<Entry>> {
        let forgets = |entry: &Entry| {
            let brief = entry.field("data").filter(|data| decides(entry, "cut") && data.contains("\"brief\":"))?;
            let data = &brief[..brief.find(",\"brief\":")?];
            Entry::parse(&entry.line().replace(brief, &format!("{data}}}"))).ok()
        };
        (self.what == Sabotage::ForgetsBrief).then(|| branch.iter().map(|entry| forgets(entry).unwrap_or_else(|| entry.clone())).collect())
    }

    /// What is appended beside a decision of the agent's.
    pub fn beside(&self, call: &str, branch: &[Entry]) -> Option<Draft> {
        if self.what != Sabotage::PinEdits || !call.contains("\"pin\"") {
            return None;
        }
        let result = branch.iter().rfind(|entry| matches!(entry.kind(), Kind::Message(Role::ToolResult { .. })))?;
        Some(Draft::ContextEdit { target: result.id().to_owned(), replacement: Some("[{\"type\":\"text\",\"text\":\"pinned\"}]".to_owned()) })
    }

    /// What is appended at a boundary where the runtime decided nothing.
    pub fn meddles(&mut self, decision: &Decision, branch: &[Entry], marks: usize) -> Option<Draft> {
        if self.what != Sabotage::MarkEdits || marks == 0 || *decision != Decision::Quiet {
            return None;
        }
        let result = branch.iter().find(|entry| matches!(entry.kind(), Kind::Message(Role::ToolResult { .. })))?;
        Some(Draft::ContextEdit { target: result.id().to_owned(), replacement: Some("[{\"type\":\"text\",\"text\":\"marked\"}]".to_owned()) })
    }

    /// What the host is answered that asks for its own compaction.
    pub fn lets_host_compact(&self, honest: bool) -> bool {
        match self.what {
            Sabotage::LetsHostCompact => true,
            Sabotage::HoldsBackForEver => false,
            _ => honest,
        }
    }

    /// Whether a write that the disk refused is taken for done.
    pub fn takes_for_saved(&self) -> bool {
        self.what == Sabotage::TakenForSaved
    }

    /// Whether a session is not told of other settings.
    pub fn keeps_settings(&self) -> bool {
        self.what == Sabotage::KeepsSettings
    }

    /// Whether a boundary that was dropped is tried again as it was.
    pub fn insists(&self) -> bool {
        self.what == Sabotage::Insists
    }

    /// Whether a fold is expanded without a look at its originals.
    pub fn expands_unchecked(&self) -> bool {
        self.what == Sabotage::ExpandsUnchecked
    }

    /// Whether a suspension outlasts what ends it.
    pub fn suspends_for_ever(&self) -> bool {
        self.what == Sabotage::SuspendsForEver
    }

    /// The second copy that is given back unchecked where the runtime refuses.
    pub fn gives_unchecked(&self, given: &Result<Vec<Original>, RecoverError>, branch: &[Entry], store: &MemoryStore) -> Option<Vec<Original>> {
        let (Sabotage::UncheckedCopy, Err(RecoverError::Damaged { entry, .. })) = (self.what, given) else { return None };
        let digest = branch.iter().find(|other| other.id() == entry)?.digest();
        let line = String::from_utf8(store.get(digest).ok()??).ok()?;
        Some(vec![Original { id: entry.clone(), line, from_store: true }])
    }

    fn tamper(&self, commit: &mut Commit, branch: &[Entry]) {
        let drafts = &mut commit.drafts;
        let untouched =
            |drafts: &[Draft], entry: &&Entry| !drafts.iter().any(|draft| matches!(draft, Draft::ContextEdit { target, .. } if target == entry.id()));
        match self.what {
            Sabotage::DropsResult => {
                let raw = branch.iter().find(|entry| matches!(entry.kind(), Kind::Message(Role::ToolResult { .. })) && untouched(drafts, entry));
                drafts.extend(raw.map(omission));
            }
            Sabotage::HidesUser => {
                let newest = branch.iter().rfind(|entry| matches!(entry.kind(), Kind::Message(Role::User))).map(Entry::id);
                let user = branch
                    .iter()
                    .find(|entry| matches!(entry.kind(), Kind::Message(Role::User)) && Some(entry.id()) != newest && untouched(drafts, entry));
                drafts.extend(user.map(omission));
            }
            Sabotage::NamesNeighbour => in_a_placeholder(drafts, |text| text.replacen("}\\n", "}\\nnext to f_0123456789ab\\n", 1)),
            Sabotage::LongBrief => in_a_placeholder(drafts, |text| {
                let padding = format!("\\n| {}", "more ".repeat(600));
                text.replacen("\\n⟦end ", &format!("{padding}\\n⟦end "), 1)
            }),
            Sabotage::UnquotedText => {
                for draft in drafts.iter_mut() {
                    let Draft::ContextEdit { target, replacement: Some(content) } = draft else { continue };
                    if branch.iter().any(|entry| entry.id() == *target && matches!(entry.kind(), Kind::Message(Role::User))) {
                        *content = content.replace("\\n| ", "\\n");
                    }
                }
            }
            Sabotage::AssistantCarrier => {
                let carrier = drafts.iter_mut().find_map(|draft| match draft {
                    Draft::ContextEdit { target, replacement: Some(content) } if content.contains("⟦end f_") => Some(target),
                    _ => None,
                });
                let Some(target) = carrier else { return };
                let at = branch.iter().position(|entry| entry.id() == *target).unwrap_or(0);
                let answer = branch[..at].iter().rfind(|entry| matches!(entry.kind(), Kind::Message(Role::Assistant(_))));
                if let Some(answer) = answer {
                    *target = answer.id().to_owned();
                }
            }
            Sabotage::WrongDigest => {
                return in_the_record(drafts, |data| {
                    let part = data.find("\"parts\":[[").and_then(|parts| Some(parts + data[parts..].find("\",\"")? + 3));
                    if let Some(at) = part {
                        data.replace_range(at..at + 64, &Digest::of(b"other bytes").to_string());
                    }
                });
            }
            Sabotage::ReversesEdits => drafts[1..].reverse(),
            Sabotage::MarkEdits
            | Sabotage::CommitsBelowTrigger
            | Sabotage::StaleMeasurement
            | Sabotage::IgnoresConsolidation
            | Sabotage::ForgetsHold
            | Sabotage::StopsEarly
            | Sabotage::SendsOverFence
            | Sabotage::ForgetsOverlay
            | Sabotage::FoldsPin
            | Sabotage::ForgetsUnmark
            | Sabotage::ForgetsBrief
            | Sabotage::ClipsHeld
            | Sabotage::PinEdits
            | Sabotage::RetiresUnread
            | Sabotage::Fights
            | Sabotage::UncheckedCopy
            | Sabotage::TakenForSaved
            | Sabotage::FoldsSuspended
            | Sabotage::SuspendsForEver
            | Sabotage::ContinuesAborted
            | Sabotage::RetriesAgain
            | Sabotage::KeepsSettings
            | Sabotage::Insists
            | Sabotage::ExpandsUnchecked
            | Sabotage::NoticesUnasked
            | Sabotage::RefoldsEarly
            | Sabotage::LetsHostCompact
            | Sabotage::HoldsBackForEver
            | Sabotage::MasksExcluded
            | Sabotage::MasksRecent
            | Sabotage::MasksAgain
            | Sabotage::MasksEarly
            | Sabotage::MasksUnderWrongCall => return,
        }
        seal(drafts);
    }
}

/// A store as a careless host sees it: whatever it was asked to do, it did.
pub(crate) struct Careless<'a> {
    store: &'a mut MemoryStore,
    taken: BTreeMap<Digest, Vec<u8>>,
}

impl<'a> Careless<'a> {
    pub fn of(store: &'a mut MemoryStore) -> Self {
        Careless { store, taken: BTreeMap::new() }
    }
}

impl ObjectStore for Careless<'_> {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        let _ = self.store.put(digest, bytes);
        self.taken.insert(digest, bytes.to_vec());
        Ok(())
    }

    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.taken.get(&digest).cloned().or_else(|| self.store.get(digest).ok().flatten()))
    }
}

/// An answer that follows everything.
const READ: &str = r#"{"type":"message","id":"read","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"read"}]}}"#;

/// A message that follows everything, and weighs nothing.
const SPOKEN: &str = r#"{"type":"message","id":"spoken","message":{"role":"user","content":[]}}"#;

/// Whether a person stopped the newest answer.
fn was_aborted(branch: &[Entry]) -> bool {
    let newest = branch.iter().rev().find_map(|entry| match entry.kind() {
        Kind::Message(Role::Assistant(assistant)) => Some(assistant.stop),
        _ => None,
    });
    newest == Some(StopReason::Aborted)
}

/// Whether an entry is a decision with this verb.
fn decides(entry: &Entry, verb: &str) -> bool {
    matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *DECISION)
        && entry.field("data").is_some_and(|data| data.contains(&format!("\"verb\":\"{verb}\"")))
}

/// The branch with some entries silenced, each in its place.
fn without(branch: &[Entry], forgotten: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    let silent = |entry: &Entry| {
        let line = format!("{{\"type\":\"label\",\"id\":{}}}", Value::from(entry.id()));
        Entry::parse(&line).expect("a label is an entry")
    };
    branch.iter().map(|entry| if forgotten(entry) { silent(entry) } else { entry.clone() }).collect()
}

/// Whether a commit writes the edits of its record and no others.
fn writes_its_own(commit: &Commit) -> bool {
    let Some(Draft::Custom { data, .. }) = commit.drafts.first() else { return false };
    data.matches("{\"target\":").count() == commit.drafts.len() - 1
}

fn omission(entry: &Entry) -> Draft {
    Draft::ContextEdit { target: entry.id().to_owned(), replacement: None }
}

/// Changes the first placeholder among the drafts, as JSON text.
fn in_a_placeholder(drafts: &mut [Draft], change: impl Fn(&str) -> String) {
    let first = drafts.iter_mut().find_map(|draft| match draft {
        Draft::ContextEdit { replacement: Some(content), .. } if content.contains("⟦end f_") => Some(content),
        _ => None,
    });
    if let Some(content) = first {
        *content = change(content);
    }
}

/// What a content weighs.
fn size_of(content: &str) -> Size {
    let entry = Entry::parse(&format!("{{\"type\":\"custom_message\",\"id\":\"\",\"content\":{content}}}"));
    entry.map_or(Size::default(), |entry| Size::of_original(&entry))
}

/// Changes the record, as text: another order of its keys alone would betray the forgery.
fn in_the_record(drafts: &mut [Draft], change: impl FnOnce(&mut String)) {
    if let Some(Draft::Custom { data, .. }) = drafts.first_mut() {
        change(data);
    }
}

/// Makes the record promise what the drafts now do, so that the bug is not betrayed by a clumsy forgery.
fn seal(drafts: &mut [Draft]) {
    #[derive(serde::Deserialize)]
    struct Data {
        edits: Vec<Clip>,
    }
    #[derive(serde::Deserialize)]
    struct Clip {
        target: String,
        clip: Option<(usize, usize)>,
    }
    let Some(Draft::Custom { data, .. }) = drafts.first() else { return };
    let Ok(record) = serde_json::from_str::<Data>(data) else { return };
    let clips: BTreeMap<String, Option<(usize, usize)>> = record.edits.into_iter().map(|edit| (edit.target, edit.clip)).collect();
    let edit = |draft: &Draft| {
        let Draft::ContextEdit { target, replacement } = draft else { return None };
        let mut edit = format!("{{\"target\":{}", Value::from(target.as_str()));
        if let Some(content) = replacement {
            let Size { bytes, images } = size_of(content);
            edit.push_str(&format!(",\"sha256\":\"{}\",\"bytes\":{bytes}", Digest::of(content.as_bytes())));
            if images > 0 {
                edit.push_str(&format!(",\"images\":{images}"));
            }
            if let Some(Some((head, tail))) = clips.get(target) {
                edit.push_str(&format!(",\"clip\":[{head},{tail}]"));
            }
        }
        Some(edit + "}")
    };
    let edits: Vec<String> = drafts.iter().filter_map(edit).collect();
    in_the_record(drafts, |data| {
        if let Some(at) = data.rfind("],\"edits\":[") {
            data.truncate(at);
            data.push_str(&format!("],\"edits\":[{}]}}", edits.join(",")));
        }
    });
}
