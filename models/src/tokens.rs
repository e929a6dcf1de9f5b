//! The true token count, which the runtime cannot see.
//!
//! A tokenizer's density, in bytes per token, depends on what kind of text it meets and on nothing the runtime is told. Here it is a
//! function of the kind (who speaks, in which form, which tool), the session's seed and the place in the session, where it wanders
//! slowly between 2 and 12. The same message therefore always counts the same, and a calibration made early is wrong later.

use crate::hash::{hash, mix};
use crate::shown::{Facts, Role, Shown};

/// Tokens a message costs beside its text: role and delimiters.
const FRAME: u64 = 4;

/// Tokens a call costs beside its name and arguments: its id and its JSON.
const CALL_FRAME: u64 = 12;

/// Densities are counted in 64ths of a byte per token.
const UNIT: u64 = 64;

/// Entries between two places where the density is drawn; between them it changes evenly.
const STRIDE: usize = 48;

/// The true count of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenModel {
    /// What the session's densities are drawn from.
    pub seed: u64,
    /// Tokens of every request that stand in no entry: the wire's own frame, and system prompt and tools where the journal has none.
    pub overhead: u64,
    /// Tokens of an image, whatever its bytes.
    pub image: u64,
    /// One density for every text, in thousandths of a byte per token; frames cost nothing then, so that figures can be checked by hand.
    pub constant: Option<u64>,
}

impl TokenModel {
    /// A session's count. An image is 765 tokens, which is what a square of 1,024 pixels costs on OpenAI's wires; the runtime assumes more.
    pub fn new(seed: u64, overhead: u64) -> Self {
        TokenModel { seed, overhead, image: 765, constant: None }
    }

    /// A count that is the same everywhere: so many thousandths of a byte per token.
    pub fn constant(milli_bytes: u64, overhead: u64) -> Self {
        TokenModel { constant: Some(milli_bytes.max(1)), ..TokenModel::new(0, overhead) }
    }

    /// The tokens of a message; 0 if it does not leave.
    pub fn message(&self, shown: &Shown) -> u64 {
        if shown.facts.sent { self.count(shown.role, &shown.facts, shown.at) } else { 0 }
    }

    /// The tokens of a message's reasoning alone.
    pub fn reasoning(&self, shown: &Shown) -> u64 {
        let bytes = shown.facts.bytes.thinking;
        match self.constant {
            Some(density) => (bytes * 1_000).div_ceil(density),
            None => (bytes * UNIT).div_ceil(self.density(THINKING, shown.at)),
        }
    }

    /// The tokens of a synthetic result: a frame and three words.
    pub fn synthetic(&self) -> u64 {
        FRAME + 3
    }

    fn count(&self, role: Role, facts: &Facts, at: usize) -> u64 {
        let text = match role {
            Role::ToolResult => Kind::Tool(hash(0, facts.tool.as_bytes())),
            Role::BashExecution => Kind::Tool(hash(0, b"bash")),
            Role::System => Kind::Fixed(0, 272),
            Role::Assistant => Kind::Fixed(1, 262),
            Role::User | Role::Custom | Role::Other => Kind::Fixed(2, 268),
            Role::BranchSummary | Role::CompactionSummary => Kind::Fixed(3, 282),
        };
        let parts = [(text, facts.bytes.text), (THINKING, facts.bytes.thinking), (Kind::Fixed(5, 210), facts.bytes.calls)];
        if let Some(density) = self.constant {
            let bytes: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
            return (bytes * 1_000).div_ceil(density) + self.image * facts.images;
        }
        let words: u64 = parts.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(kind, bytes)| (bytes * UNIT).div_ceil(self.density(kind, at))).sum();
        FRAME + words + CALL_FRAME * facts.calls.len() as u64 + self.image * facts.images
    }

    /// 64ths of a byte per token, from 2 to 12 bytes.
    fn density(&self, kind: Kind, at: usize) -> u64 {
        let (name, base) = match kind {
            Kind::Fixed(name, base) => (name, base),
            // From dense (2.5 bytes: hexadecimal, logs) to thin (8.5 bytes: indented, repetitive).
            Kind::Tool(name) => (name, 160 + mix(self.seed, name) % 384),
        };
        let stream = mix(self.seed ^ 0x746f_6b65_6e73, name);
        let knot = at / STRIDE;
        let [from, to] = [knot, knot + 1].map(|knot| 154 + mix(stream, knot as u64) % 256);
        let (done, left) = ((at % STRIDE) as u64, (STRIDE - at % STRIDE) as u64);
        // 154..410 of 256: from six tenths of the base to one and six tenths.
        (base * (from * left + to * done) / (256 * STRIDE as u64)).clamp(2 * UNIT, 12 * UNIT)
    }
}

/// A kind of text: a named one with its usual density, or a tool's output, whose usual density is drawn.
#[derive(Clone, Copy)]
enum Kind {
    Fixed(u64, u64),
    Tool(u64),
}

/// Reasoning.
const THINKING: Kind = Kind::Fixed(4, 276);

#[cfg(test)]
mod tests {
    use super::*;
    use fold_runtime::journal::Entry;
    use fold_runtime::window::projection;

    fn shown(message: &str) -> Shown {
        let entry = Entry::parse(&format!(r#"{{"type":"message","id":"a","message":{message}}}"#)).expect("an entry");
        let window = projection(std::slice::from_ref(&entry));
        Shown::read(0, &entry, None, &window[0].messages[0], &TokenModel::new(0, 0))
    }

    fn tokens(model: &TokenModel, at: usize, message: &str) -> u64 {
        let mut shown = shown(message);
        shown.at = at;
        model.message(&shown)
    }

    fn result(tool: &str, bytes: usize) -> String {
        format!(r#"{{"role":"toolResult","toolCallId":"c","toolName":"{tool}","content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(bytes))
    }

    #[test]
    fn an_unchanged_message_always_counts_the_same() {
        let model = TokenModel::new(7, 0);
        assert_eq!(tokens(&model, 90, &result("read", 5_000)), tokens(&model.clone(), 90, &result("read", 5_000)));
    }

    #[test]
    fn the_count_depends_on_seed_tool_and_place_and_stays_between_two_and_twelve_bytes() {
        let (mut least, mut most, mut steps) = (u64::MAX, 0, 0);
        let mut results = ["read", "bash", "grep"].map(|tool| shown(&result(tool, 12_000)));
        for seed in 0..20 {
            let model = TokenModel::new(seed, 0);
            let mut before = None;
            for at in 0..2_000 {
                for shown in &mut results {
                    shown.at = at;
                    let words = model.message(shown) - FRAME;
                    (least, most) = (least.min(words), most.max(words));
                    steps += u64::from(shown.facts.tool == *"read" && before.replace(words).is_some_and(|before| before != words));
                }
            }
        }
        assert!((1_000..=1_200).contains(&least) && (5_000..=6_000).contains(&most), "{least} to {most}");
        assert!(steps > 20_000, "the density wanders, but changed only {steps} times");
    }

    #[test]
    fn an_image_counts_its_figure_and_never_its_base64() {
        let model = TokenModel::new(1, 0);
        let image =
            |bytes: usize| format!(r#"{{"role":"user","content":[{{"type":"image","data":"{}","mimeType":"image/png"}}]}}"#, "A".repeat(bytes));
        assert_eq!(tokens(&model, 0, &image(8)), FRAME + 765);
        assert_eq!(tokens(&model, 0, &image(80_000)), FRAME + 765);
    }

    #[test]
    fn signatures_count_nothing_and_calls_their_frame() {
        let model = TokenModel::new(1, 0);
        let answer = |signature: &str| {
            format!(
                r#"{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"thinking","thinking":"hm","thinkingSignature":"{signature}"}},{{"type":"toolCall","id":"c","name":"ls","arguments":{{}}}}]}}"#
            )
        };
        assert_eq!(tokens(&model, 0, &answer("s")), tokens(&model, 0, &answer(&"s".repeat(9_000))));
        assert!(tokens(&model, 0, &answer("s")) >= FRAME + CALL_FRAME + 2);
    }
}
