//! A recorded session, re-issued: same contents, same ids, another world around it.
//!
//! The recorded messages of the final branch are the conversation; recorded compactions and edits are set aside. Usage comes from
//! a count of its own, whose density the recorded usage calibrates.

use fold_models::agent::{Density, Geometry, Model, Plan, Profile, SCHEMA, World};
use fold_models::price::Used;
use fold_runtime::journal::{Branch, BranchProblem, Entry, Journal, Kind, Role, Text};
use fold_runtime::session::{COMMIT_RECORD, DECISION};
use fold_runtime::window::Size;
use serde_json::json;

/// What a file holds that can be replayed.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The conversation, root first, recorded compactions and edits taken out.
    pub entries: Vec<Entry>,
    /// What was odd about the file, in sentences.
    pub notices: Vec<String>,
    /// Thousandths of a byte per token, from the recorded usage; 4,000 where that says nothing.
    pub milli_bytes_per_token: u64,
    /// Whether the recorded usage said it.
    pub calibrated: bool,
    /// What the session itself used and paid.
    pub paid: Paid,
}

/// What a session file says it used and paid: every answer, summary and other call of a model in it, also on branches that were left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// Calls that report tokens.
    pub calls: u64,
    /// Their tokens.
    pub used: Used,
    /// Nano-dollars, as Pi noted them; 0 where it knew no price.
    pub nano_dollars: u64,
}

impl Paid {
    /// Adds up the usage of entries. What is no usage as Pi writes it counts for nothing.
    pub fn of(entries: &[Entry]) -> Self {
        #[derive(serde::Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Usage {
            input: u64,
            output: u64,
            cache_read: u64,
            cache_write: u64,
            cost: Cost,
        }
        #[derive(serde::Deserialize, Default)]
        #[serde(default)]
        struct Cost {
            total: f64,
        }
        // No session of a person comes near it, and sums of these stay exact.
        const MOST: u64 = 1 << 40;
        let mut paid = Paid::default();
        for raw in entries.iter().filter_map(|entry| entry.message_field("usage").or_else(|| entry.field("usage"))) {
            let Ok(usage) = serde_json::from_str::<Usage>(raw) else { continue };
            if usage.input.max(usage.output).max(usage.cache_read).max(usage.cache_write) > MOST {
                continue;
            }
            paid.add(Paid {
                calls: u64::from(usage.input.max(usage.output).max(usage.cache_read).max(usage.cache_write) > 0),
                used: Used { fresh: usage.input, cached: usage.cache_read, written: usage.cache_write, output: usage.output },
                nano_dollars: (usage.cost.total.max(0.0) * 1e9).round() as u64,
            });
        }
        paid
    }

    /// Adds another session's.
    pub fn add(&mut self, other: Paid) {
        self.calls += other.calls;
        self.used.fresh += other.used.fresh;
        self.used.cached += other.used.cached;
        self.used.written += other.used.written;
        self.used.output += other.used.output;
        self.nano_dollars = self.nano_dollars.saturating_add(other.nano_dollars);
    }
}

impl Recording {
    /// Reads a session file.
    ///
    /// # Errors
    /// A sentence when it is no session file, or holds no message.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let journal = Journal::read(bytes).map_err(|error| error.to_string())?;
        let Branch { entries, problems } = Branch::of(&journal.entries);
        let skipped = journal.skipped.iter().map(|skipped| format!("line {}: {}", skipped.line, skipped.why));
        let mut notices: Vec<String> = skipped.chain(problems.iter().map(describe)).collect();
        let ours = |name: &Text| *name == *COMMIT_RECORD || *name == *DECISION;
        let set_aside = |entry: &Entry| match entry.kind() {
            Kind::Compaction { .. } | Kind::ContextEdit { .. } => true,
            Kind::Custom { custom_type } => ours(custom_type),
            _ => false,
        };
        let aside = entries.iter().filter(|entry| set_aside(entry)).count();
        if aside > 0 {
            notices.push(format!("{aside} recorded compactions, edits, commit records and decisions are set aside"));
        }
        let paid = Paid::of(&journal.entries);
        let calibration = calibrate(&entries);
        let entries: Vec<Entry> = entries.into_iter().filter(|entry| !set_aside(entry)).collect();
        if !entries.iter().any(|entry| matches!(entry.kind(), Kind::Message(_))) {
            return Err("it holds no message to replay".to_owned());
        }
        notices.extend(unpaired(&entries));
        Ok(Recording { entries, notices, milli_bytes_per_token: calibration.unwrap_or(4_000), calibrated: calibration.is_some(), paid })
    }

    /// The world a replay happens in, as a plan without operations.
    pub fn plan(&self, budget: u64) -> Plan {
        Plan {
            schema: SCHEMA,
            seed: 0,
            profile: Profile::Swarm,
            settings: json!({}),
            window: budget,
            world: World {
                density: Density::Constant(self.milli_bytes_per_token),
                overhead_tokens: 0,
                reports_usage: true,
                cache_ttl_ms: 300_000,
                model: Model::Chat,
                cache: Geometry::Steps,
                router: None,
            },
            ops: Vec::new(),
        }
    }
}

/// One sentence for an oddity of the tree.
pub fn describe(problem: &BranchProblem) -> String {
    match problem {
        BranchProblem::DanglingParent { id, parent } => {
            format!("entry {id} names the parent {parent}, which is not in the file; the branch begins at {id}")
        }
        BranchProblem::DuplicateId(id) => format!("two entries have the id {id}; the later one stands"),
        BranchProblem::Cycle(id) => format!("the parents of {id} lead back to it; the branch begins there"),
    }
}

/// Bytes per token over all stretches in which the recorded prompt grew by appends alone; increments cancel the fixed overhead.
fn calibrate(entries: &[Entry]) -> Option<u64> {
    let (mut bytes, mut tokens, mut since) = (0, 0, 0);
    let mut last: Option<u64> = None;
    for entry in entries {
        match entry.kind() {
            Kind::Compaction { .. } | Kind::ContextEdit { .. } | Kind::ModelChange { .. } => last = None,
            Kind::Message(Role::Assistant(assistant)) if entry.is_good_answer() => {
                let prompt = assistant.usage.map(|usage| usage.prompt()).filter(|prompt| *prompt > 0);
                if let (Some(before), Some(now)) = (last, prompt)
                    && now > before
                {
                    bytes += since;
                    tokens += now - before;
                }
                last = prompt;
                since = Size::of_original(entry).bytes;
            }
            _ => since += Size::of_original(entry).bytes,
        }
    }
    (tokens >= 5_000).then(|| (bytes * 1_000 / tokens).clamp(2_000, 12_000))
}

/// Calls without results and results without calls: reported, and replayed as they are.
fn unpaired(entries: &[Entry]) -> Vec<String> {
    let mut notices = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    for entry in entries {
        match entry.kind() {
            Kind::Message(Role::Assistant(_)) => {
                notices.extend(open.drain(..).map(|(call, at)| format!("the call {call} of entry {at} has no result")));
                let calls = entry.content().blocks().into_iter().filter_map(|block| Some(block.call()?.0.to_string_lossy()));
                open.extend(calls.filter(|call| !call.is_empty()).map(|call| (call, entry.id().to_owned())));
            }
            Kind::Message(Role::ToolResult { call_id, .. }) => {
                let call = call_id.to_string_lossy();
                match open.iter().position(|(id, _)| *id == call) {
                    Some(at) => drop(open.remove(at)),
                    None => notices.push(format!("the result in entry {} has no call before it", entry.id())),
                }
            }
            _ => {}
        }
    }
    notices.extend(open.into_iter().map(|(call, at)| format!("the call {call} of entry {at} has no result")));
    notices
}
