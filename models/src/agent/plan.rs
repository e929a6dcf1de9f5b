//! A session as data.
//!
//! Ops are tolerant: every subsequence of a plan's ops is a plan, and an op that has nothing to act on (a fork of an empty
//! branch, an edit further back than the branch reaches) is for the host to pass over or to cut to what there is. An answer may follow an
//! answer, or stand where nobody has spoken yet; the host asks the model all the same. Each op carries its own salt, so that taking one away changes no other's text.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::text::Shape;
use crate::store::Fault;

/// The format a plan is written in.
pub const SCHEMA: u32 = 1;

/// One session, before it happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`SCHEMA`] at the time of writing.
    pub schema: u32,
    /// The seed it was drawn from; names the session, draws nothing any more.
    pub seed: u64,
    /// The kind of session.
    pub profile: Profile,
    /// The policy's options, as `fold_runtime::config::Settings::parse` reads them.
    pub settings: Value,
    /// The first model's context window, in tokens.
    pub window: u64,
    /// What the runtime cannot see.
    pub world: World,
    /// What happens, in order.
    pub ops: Vec<Op>,
}

/// Kinds of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Anything that can happen, features on and off at random.
    Swarm,
    /// One turn of 200 even steps: growth and cost are easy to read.
    Steady,
    /// One turn of 1,500 steps.
    Endless,
    /// 800 short questions and answers without a tool.
    Chat,
    /// 64 stages in one turn, 4.5 MB of tool output: the published measurement.
    Campaign,
    /// A swarm session before any provider's cache, with the provider's own troubles, a clock that jumps, and facts that are asked for later.
    Full,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 6] = [Profile::Swarm, Profile::Steady, Profile::Endless, Profile::Chat, Profile::Campaign, Profile::Full];

    /// Its name on a command line and in a plan.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Swarm => "swarm",
            Profile::Steady => "steady",
            Profile::Endless => "endless",
            Profile::Chat => "chat",
            Profile::Campaign => "campaign",
            Profile::Full => "full",
        }
    }
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let names: Vec<_> = Profile::ALL.iter().map(|profile| profile.name()).collect();
            format!("there is no profile \"{name}\"; there are {}", names.join(", "))
        })
    }
}

/// The side of the world that the runtime only sees through what a provider reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// How many bytes make a token, truly.
    pub density: Density,
    /// Tokens of every request that stand in no entry: tool schemas, framing.
    pub overhead_tokens: u64,
    /// Whether answers say what they cost, until an [`Op::SetUsage`].
    pub reports_usage: bool,
    /// How long the provider's prefix cache keeps a prefix that nobody reads, in milliseconds.
    pub cache_ttl_ms: u64,
    /// The first model.
    pub model: Model,
    /// The rule of the provider's prefix cache.
    #[serde(default, skip_serializing_if = "Geometry::is_usual")]
    pub cache: Geometry,
    /// Seeds a router that loses requests now and then, so that they find no cache; without a seed it loses none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<u64>,
}

/// Rules of a prefix cache; see [`crate::cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Geometry {
    /// The longest prefix in steps of 128 tokens, which [`World::cache_ttl_ms`] lets grow old.
    #[default]
    Steps,
    /// The same in steps of 2,048.
    LongSteps,
    /// Prefixes that end with a message.
    Ends,
    /// Prefixes that end at a marker and live five minutes.
    Markers,
    /// The same for an hour, at twice the price of a token for writing one.
    MarkersForAnHour,
    /// Markers, with the spare one behind the last placeholder.
    SpareMarker,
    /// Whole units.
    Units,
    /// Blocks of 16 tokens in a bounded memory.
    Blocks,
    /// Blocks of one token.
    Radix,
}

impl Geometry {
    /// All of them.
    pub const ALL: [Geometry; 9] = [
        Geometry::Steps,
        Geometry::LongSteps,
        Geometry::Ends,
        Geometry::Markers,
        Geometry::MarkersForAnHour,
        Geometry::SpareMarker,
        Geometry::Units,
        Geometry::Blocks,
        Geometry::Radix,
    ];

    fn is_usual(&self) -> bool {
        *self == Geometry::Steps
    }
}

/// How a provider fails a request that it would take at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trouble {
    /// Too many requests (429); it says when to come back.
    RateLimit,
    /// It has no room (529).
    Overloaded,
    /// The body is too large (413), whatever its tokens.
    TooLarge,
    /// Nothing comes for ten minutes.
    Timeout,
    /// The stream breaks off within the answer, which is billed as far as it came.
    CutStream,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Trouble; 5] = [Trouble::RateLimit, Trouble::Overloaded, Trouble::TooLarge, Trouble::Timeout, Trouble::CutStream];
}

/// The true number of bytes per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Density {
    /// The same everywhere, in thousandths of a byte per token.
    Constant(u64),
    /// Depends on the kind of text and drifts from 2 to 12, by this salt.
    Drifting(u64),
}

/// Models that answers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// On the wire of Anthropic Messages.
    Anthropic,
    /// On the wire of OpenAI Responses.
    Responses,
    /// On the wire of OpenAI Chat.
    Chat,
    /// On the wire of Gemini.
    Gemini,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 4] = [Model::Anthropic, Model::Responses, Model::Chat, Model::Gemini];
}

/// What a text is: two equal values are the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Which one of all of that size and shape.
    pub salt: u64,
    /// Its size; see [`crate::agent::text::json_string`] for how exact.
    pub bytes: u64,
    /// The kind of text.
    pub shape: Shape,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "camelCase")]
pub enum Op {
    /// A person writes.
    User {
        /// The message.
        text: Text,
        /// Pasted images.
        images: u8,
    },
    /// The model is asked and answers; its tools run.
    Answer(Answer),
    /// Nothing happens for a while.
    Idle {
        /// How long.
        ms: u64,
    },
    /// The process ends and another opens the journal.
    Resume,
    /// The branch is copied up to a point into a new session, which goes on.
    Fork {
        /// Entries left out at its end.
        back: u32,
    },
    /// The same session goes on from an earlier entry.
    Tree {
        /// Entries left out at its end.
        back: u32,
    },
    /// Another model from here on.
    ModelSwitch {
        /// Its context window, in millionths of the *plan's* window, whatever switches came before.
        window_ppm: u32,
        /// Which one.
        model: Model,
    },
    /// A person runs a command.
    Bash {
        /// Its output.
        text: Text,
        /// Whether it is kept from the model.
        excluded: bool,
    },
    /// An extension keeps state, out of context.
    Custom {
        /// The state.
        text: Text,
    },
    /// An extension says something to the model.
    CustomMessage {
        /// The message.
        text: Text,
    },
    /// Another branch, summed up.
    BranchSummary {
        /// The summary.
        text: Text,
    },
    /// A person asks for Pi's own compaction.
    Compact {
        /// The summary it will come to.
        text: Text,
    },
    /// The system prompt, or a change of it.
    System {
        /// The prompt.
        text: Text,
    },
    /// Another extension edits what an entry shows.
    ForeignEdit {
        /// How many entries before the last one.
        back: u32,
        /// Omits it instead of giving it another content.
        omit: bool,
        /// That content.
        text: Text,
    },
    /// The process dies the next time the policy's entries are written, and another opens the journal.
    Crash {
        /// How many of them are written before.
        after: u32,
    },
    /// Another extension drops the policy's entries the next time there are any.
    DropDrafts,
    /// A person asks for a commit.
    Ask,
    /// An agent decides something about its window, or looks at what was folded.
    Act {
        /// What.
        verb: Verb,
        /// Which of all that there are: marks, pins, folds, or entries counted from the end.
        nth: u32,
        /// What it says, where it says something; its bytes are those it wants to see, where it looks.
        text: Text,
    },
    /// The provider begins or ceases to say what an answer cost.
    SetUsage {
        /// Whether it does from here on.
        reported: bool,
    },
    /// The disk that keeps the second copies goes wrong from here on, or is sound again.
    Disk {
        /// What is wrong with it.
        fault: Option<Fault>,
    },
    /// A second copy rots.
    Rot {
        /// Which of all that there are, counted round.
        nth: u32,
    },
    /// The host reports an internal error of the policy.
    Fail,
    /// The provider refuses the next requests for their size, whatever it is. Only a policy that recovers from that is asked to.
    Refuse {
        /// How many.
        times: u8,
    },
    /// The provider fails the next requests.
    Trouble {
        /// How.
        trouble: Trouble,
        /// How many.
        times: u8,
    },
    /// The host's clock jumps, forwards or back, and stays so.
    Jump {
        /// How far, in milliseconds.
        ms: i64,
    },
    /// A person asks for facts that were planted in earlier texts.
    Question {
        /// Which of all that were planted so far, counted round.
        nth: Vec<u32>,
    },
    /// A person changes the settings.
    Configure {
        /// All of them, as the plan's own.
        settings: Value,
    },
}

/// What an agent does with the policy's own tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Looks at an original.
    Peek,
    /// Keeps something as it is.
    Pin,
    /// Lets it go again.
    Unpin,
    /// Supplies a brief.
    Brief,
    /// Cuts a mark in two.
    Reboundary,
    /// Withdraws a mark.
    Unmark,
    /// Shows one level of a fold again.
    Expand,
    /// Folds again what was expanded.
    Refold,
    /// Cuts a fold in two.
    Recut,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 9] =
        [Verb::Peek, Verb::Pin, Verb::Unpin, Verb::Brief, Verb::Reboundary, Verb::Unmark, Verb::Expand, Verb::Refold, Verb::Recut];
}

/// One answer of the model, and what its tools will say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Salts its own words.
    pub salt: u64,
    /// Bytes of reasoning.
    pub thinking_bytes: u64,
    /// Bytes of prose.
    pub text_bytes: u64,
    /// How it ends.
    pub stop: Stop,
    /// How its calls are named.
    pub ids: IdStyle,
    /// Its calls. Where the stop is an error or an abort they stand in the answer and are never run.
    pub calls: Vec<Call>,
    /// What is written between the answer and the first result.
    pub aside: Option<Aside>,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// Complete.
    Stop,
    /// At the output ceiling.
    Length,
    /// To have its tools run.
    ToolUse,
    /// The provider failed.
    Error,
    /// A person stopped it.
    Aborted,
}

/// How the calls of one answer are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IdStyle {
    /// As no call before.
    Fresh,
    /// By their place in the answer, so that later answers use the same names again.
    Reused,
    /// All calls of the answer alike.
    Clashing,
}

/// One tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Salts its arguments.
    pub salt: u64,
    /// The tool.
    pub tool: Tool,
    /// Bytes of the argument that carries text.
    pub argument_bytes: u64,
    /// What comes back.
    pub reply: Reply,
}

/// What comes back for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// One result.
    Given(Outcome),
    /// Nothing.
    Missing,
    /// The result, twice.
    Twice(Outcome),
    /// A result under an id that no call has.
    Foreign(Outcome),
}

/// A tool's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// What it says.
    pub text: Text,
    /// Whether the text comes in two blocks.
    pub split: bool,
    /// Whether the tool reports failure.
    pub error: bool,
    /// Images after the text.
    pub images: u8,
}

/// What comes between an answer and its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Aside {
    /// A person's command.
    Bash(Text),
    /// State a tool keeps while it runs.
    Custom(Text),
}

/// The tools agents use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tool {
    /// Reads a file.
    Read,
    /// Runs a command.
    Bash,
    /// Searches files.
    Grep,
    /// Changes a file.
    Edit,
    /// Writes a file.
    Write,
    /// Hands out the next stage of a campaign.
    Stage,
    /// The policy's own tool.
    FoldContext,
}

impl Tool {
    /// Its name in a call.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Read => "read",
            Tool::Bash => "bash",
            Tool::Grep => "grep",
            Tool::Edit => "edit",
            Tool::Write => "write",
            Tool::Stage => "repo_stage",
            Tool::FoldContext => "pi_fold_context",
        }
    }
}

impl Reply {
    /// The result, if there is one.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Reply::Given(outcome) | Reply::Twice(outcome) | Reply::Foreign(outcome) => Some(outcome),
            Reply::Missing => None,
        }
    }

    /// How many results are written.
    pub fn count(&self) -> u64 {
        match self {
            Reply::Missing => 0,
            Reply::Given(_) | Reply::Foreign(_) => 1,
            Reply::Twice(_) => 2,
        }
    }
}

impl Answer {
    /// Bytes of text in it and in its results.
    pub fn text_bytes(&self) -> u64 {
        let result = |call: &Call| call.reply.count() * call.reply.outcome().map_or(0, |outcome| outcome.text.bytes);
        let calls: u64 = self.calls.iter().map(|call| call.argument_bytes + result(call)).sum();
        let aside = self.aside.map_or(0, |(Aside::Bash(text) | Aside::Custom(text))| text.bytes);
        self.thinking_bytes + self.text_bytes + calls + aside
    }
}

impl Op {
    /// The names of all kinds.
    pub const NAMES: [&'static str; 27] = [
        "user",
        "answer",
        "idle",
        "resume",
        "fork",
        "tree",
        "modelSwitch",
        "bash",
        "custom",
        "customMessage",
        "branchSummary",
        "compact",
        "system",
        "foreignEdit",
        "setUsage",
        "crash",
        "dropDrafts",
        "ask",
        "act",
        "disk",
        "rot",
        "fail",
        "refuse",
        "trouble",
        "jump",
        "question",
        "configure",
    ];

    /// The kind of op, as a plan names it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::User { .. } => "user",
            Op::Answer(_) => "answer",
            Op::Idle { .. } => "idle",
            Op::Resume => "resume",
            Op::Fork { .. } => "fork",
            Op::Tree { .. } => "tree",
            Op::ModelSwitch { .. } => "modelSwitch",
            Op::Bash { .. } => "bash",
            Op::Custom { .. } => "custom",
            Op::CustomMessage { .. } => "customMessage",
            Op::BranchSummary { .. } => "branchSummary",
            Op::Compact { .. } => "compact",
            Op::System { .. } => "system",
            Op::ForeignEdit { .. } => "foreignEdit",
            Op::SetUsage { .. } => "setUsage",
            Op::Crash { .. } => "crash",
            Op::DropDrafts => "dropDrafts",
            Op::Ask => "ask",
            Op::Act { .. } => "act",
            Op::Disk { .. } => "disk",
            Op::Rot { .. } => "rot",
            Op::Fail => "fail",
            Op::Refuse { .. } => "refuse",
            Op::Trouble { .. } => "trouble",
            Op::Jump { .. } => "jump",
            Op::Question { .. } => "question",
            Op::Configure { .. } => "configure",
        }
    }

    /// Bytes of text it brings into the journal.
    pub fn text_bytes(&self) -> u64 {
        match self {
            Op::Answer(answer) => answer.text_bytes(),
            Op::ForeignEdit { omit: true, .. } => 0,
            Op::User { text, .. }
            | Op::Bash { text, .. }
            | Op::Custom { text }
            | Op::CustomMessage { text }
            | Op::BranchSummary { text }
            | Op::Compact { text }
            | Op::System { text }
            | Op::ForeignEdit { text, .. } => text.bytes,
            Op::Idle { .. }
            | Op::Resume
            | Op::Fork { .. }
            | Op::Tree { .. }
            | Op::ModelSwitch { .. }
            | Op::SetUsage { .. }
            | Op::Crash { .. }
            | Op::DropDrafts
            | Op::Ask
            | Op::Act { .. }
            | Op::Disk { .. }
            | Op::Rot { .. }
            | Op::Fail
            | Op::Refuse { .. }
            | Op::Trouble { .. }
            | Op::Jump { .. }
            | Op::Question { .. }
            | Op::Configure { .. } => 0,
        }
    }
}

impl Plan {
    /// Reads a stored plan.
    ///
    /// # Errors
    /// A sentence when the text is no plan, or one of another schema.
    ///
    /// ```
    /// use fold_models::agent::{Plan, Profile, draw};
    /// let plan = draw(Profile::Steady, 1);
    /// let stored = serde_json::to_string(&plan).expect("a plan is JSON");
    /// assert_eq!(Plan::parse(&stored), Ok(plan));
    /// assert_eq!(Plan::parse(r#"{"schema":7}"#).unwrap_err(), "the plan is of schema 7; this build reads schema 1");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| format!("the text is no plan: {error}"))?;
        if head.schema != SCHEMA {
            return Err(format!("the plan is of schema {}; this build reads schema {SCHEMA}", head.schema));
        }
        serde_json::from_str(text).map_err(|error| format!("the plan cannot be read: {error}"))
    }

    /// Bytes of text the session brings into its journal.
    pub fn text_bytes(&self) -> u64 {
        self.ops.iter().map(Op::text_bytes).sum()
    }

    /// How often the model is asked.
    pub fn requests(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op, Op::Answer(_))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_called_on_the_command_line_as_in_a_plan() {
        for profile in Profile::ALL {
            assert_eq!(serde_json::to_value(profile).expect("a name"), profile.name());
            assert_eq!(profile.name().parse(), Ok(profile));
        }
        let refusal = "swam".parse::<Profile>().unwrap_err();
        assert!(refusal.contains("there are swarm, steady"), "{refusal}");
    }

    #[test]
    fn an_op_is_called_in_reports_as_in_a_plan() {
        let text = Text { salt: 1, bytes: 2, shape: Shape::Prose };
        for op in [Op::Resume, Op::Fork { back: 1 }, Op::CustomMessage { text }, Op::ForeignEdit { back: 1, omit: true, text }] {
            assert_eq!(serde_json::to_value(&op).expect("an op")["op"], op.name());
        }
    }
}
