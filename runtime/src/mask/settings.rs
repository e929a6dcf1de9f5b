//! The options of masking, under the names that pi-compaction gave them: parsed, validated whole, or refused by name.
//!
//! pi-compaction falls back to a default in silence where an option is wrong. A person who wrote `triggerRatio: 60` would run for weeks with another
//! threshold than the one they wrote, so here it is refused, with every reason at once, as the settings of folding are. One thing is still
//! normalised: a *default* gives way to what was *stated*. Who lowers `triggerTokens` to 80,000 contradicts a target of 100,000 that they never wrote.

use crate::config::{nearest, refuse, share};
use serde_json::Value;
use std::collections::BTreeSet;

/// The options of masking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether anything is masked. What was masked before stays so.
    pub enabled: bool,
    /// Masking fires at this occupancy, in tokens, or at [`Settings::trigger_ratio_ppm`] of the window, whichever is less.
    pub trigger_tokens: u64,
    /// See `trigger_tokens`; in millionths.
    pub trigger_ratio_ppm: u32,
    /// Masking goes on until this occupancy, in tokens, or [`Settings::target_ratio_ppm`] of the window, whichever is less.
    pub target_tokens: u64,
    /// See `target_tokens`; in millionths.
    pub target_ratio_ppm: u32,
    /// Tokens that have to become free for a rewrite to be worth it.
    pub min_clear_tokens: u64,
    /// The newest answers, and all that follows the oldest of them, are not touched. At least 1: what no answer has followed was not read yet.
    pub keep_recent_turns: usize,
    /// Results of fewer tokens stay.
    pub min_entry_tokens: u64,
    /// Tools whose results stay.
    pub exclude_tools: BTreeSet<String>,
}

const OPTIONS: [&str; 9] = [
    "enabled",
    "triggerTokens",
    "triggerRatio",
    "targetTokens",
    "targetRatio",
    "minClearTokens",
    "keepRecentTurns",
    "minEntryTokens",
    "excludeTools",
];

impl Default for Settings {
    /// The defaults of pi-compaction.
    fn default() -> Self {
        Settings {
            enabled: true,
            trigger_tokens: 200_000,
            trigger_ratio_ppm: 600_000,
            target_tokens: 100_000,
            target_ratio_ppm: 350_000,
            min_clear_tokens: 50_000,
            keep_recent_turns: 10,
            min_entry_tokens: 256,
            exclude_tools: BTreeSet::from(["ask_user_question".to_owned()]),
        }
    }
}

impl Settings {
    /// Reads a JSON object of options; what is not named keeps its default. Where only the trigger is stated and the default target is not below it,
    /// the target is half of it, as the default of one is half the other's.
    ///
    /// # Errors
    /// Every refused option, one sentence each: the name, the value, the rule.
    ///
    /// ```
    /// use fold_runtime::mask::Settings;
    /// let settings = Settings::parse(r#"{"triggerTokens": 80000}"#).expect("valid");
    /// assert_eq!((settings.trigger_tokens, settings.target_tokens), (80_000, 40_000));
    /// let refused = Settings::parse(r#"{"triggerRatio": 60, "keepRecentTurns": 0}"#).unwrap_err();
    /// assert_eq!(refused.len(), 2);
    /// ```
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let value: Value = serde_json::from_str(text).map_err(|error| vec![format!("the settings are not JSON: {error}")])?;
        let Value::Object(options) = value else { return Err(vec!["the settings are not a JSON object of options".into()]) };
        let mut settings = Settings::default();
        let mut refused: Vec<String> = options.iter().filter_map(|(name, value)| settings.set(name, value).err()).collect();
        let gives_way = |trigger: &str, target: &str| options.contains_key(trigger) && !options.contains_key(target);
        if gives_way("triggerTokens", "targetTokens") && settings.target_tokens >= settings.trigger_tokens {
            settings.target_tokens = settings.trigger_tokens / 2;
        }
        if gives_way("triggerRatio", "targetRatio") && settings.target_ratio_ppm >= settings.trigger_ratio_ppm {
            settings.target_ratio_ppm = settings.trigger_ratio_ppm / 2;
        }
        // Checked when all are known.
        if refused.is_empty() {
            refused.extend(settings.out_of_order());
        }
        if refused.is_empty() { Ok(settings) } else { Err(refused) }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let count = |least: u64| {
            let count = value.as_u64().filter(|count| *count >= least);
            count.ok_or_else(|| refuse(name, value, &format!("a whole number of at least {least}")))
        };
        let ratio = || share(value).filter(|share| *share > 0).ok_or_else(|| refuse(name, value, "a share of the context window above 0, at most 1"));
        match name {
            "enabled" => self.enabled = value.as_bool().ok_or_else(|| refuse(name, value, "true or false"))?,
            "triggerTokens" => self.trigger_tokens = count(1)?,
            "triggerRatio" => self.trigger_ratio_ppm = ratio()?,
            "targetTokens" => self.target_tokens = count(0)?,
            "targetRatio" => self.target_ratio_ppm = ratio()?,
            "minClearTokens" => self.min_clear_tokens = count(0)?,
            "keepRecentTurns" => self.keep_recent_turns = usize::try_from(count(1)?).map_err(|_| format!("{name} is too large"))?,
            "minEntryTokens" => self.min_entry_tokens = count(0)?,
            "excludeTools" => {
                let names = value.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
                self.exclude_tools = names.ok_or_else(|| refuse(name, value, "a list of tool names"))?;
            }
            unknown => return Err(format!("there is no option \"{unknown}\"; did you mean \"{}\"?", nearest(unknown, &OPTIONS))),
        }
        Ok(())
    }

    /// A target must lie below its trigger in both units, else masking would fire at every turn's end.
    fn out_of_order(&self) -> Vec<String> {
        let mut refused = Vec::new();
        if self.target_tokens >= self.trigger_tokens {
            let (target, trigger) = (self.target_tokens, self.trigger_tokens);
            refused.push(format!("targetTokens must be below triggerTokens; they are {target} and {trigger}"));
        }
        if self.target_ratio_ppm >= self.trigger_ratio_ppm {
            let (target, trigger) = (self.target_ratio_ppm, self.trigger_ratio_ppm);
            refused.push(format!("targetRatio must be below triggerRatio; they are {target} and {trigger} millionths"));
        }
        refused
    }
}

/// The thresholds in tokens, computed once from settings and the model's context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Masking fires at this occupancy.
    pub trigger: u64,
    /// It goes on until this one.
    pub target: u64,
    /// It does nothing where less would become free.
    pub floor: u64,
}

impl Thresholds {
    /// The thresholds for a model with this context window, in tokens.
    ///
    /// # Errors
    /// A sentence where target and trigger do not lie apart, which rounding does in a window of a few tokens.
    ///
    /// ```
    /// use fold_runtime::mask::{Settings, Thresholds};
    /// let of = |window| Thresholds::new(&Settings::default(), window);
    /// assert_eq!(of(1_000_000)?, Thresholds { trigger: 200_000, target: 100_000, floor: 50_000 });
    /// assert_eq!(of(100_000)?, Thresholds { trigger: 60_000, target: 35_000, floor: 25_000 });
    /// # Ok::<(), String>(())
    /// ```
    pub fn new(settings: &Settings, window: u64) -> Result<Self, String> {
        let share = |ppm: u32| u64::try_from(u128::from(window) * u128::from(ppm) / 1_000_000).unwrap_or(u64::MAX);
        let trigger = settings.trigger_tokens.min(share(settings.trigger_ratio_ppm));
        let target = settings.target_tokens.min(share(settings.target_ratio_ppm));
        if target >= trigger {
            return Err(format!(
                "in a context window of {window} tokens masking would fire at {trigger} and stop at {target}; take a model with a larger one, or set the options of trigger and target further apart"
            ));
        }
        Ok(Thresholds { trigger, target, floor: settings.min_clear_tokens.min(trigger - target) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Settings::parse(text).unwrap_err().join("\n")
    }

    #[test]
    fn an_empty_object_is_the_published_default() {
        assert_eq!(Settings::parse("{}"), Ok(Settings::default()));
    }

    #[test]
    fn every_option_is_read_under_its_name() {
        let text = r#"{"enabled":false,"triggerTokens":9,"triggerRatio":0.5,"targetTokens":0,"targetRatio":0.25,"minClearTokens":0,"keepRecentTurns":1,"minEntryTokens":0,"excludeTools":[]}"#;
        let expected = Settings {
            enabled: false,
            trigger_tokens: 9,
            trigger_ratio_ppm: 500_000,
            target_tokens: 0,
            target_ratio_ppm: 250_000,
            min_clear_tokens: 0,
            keep_recent_turns: 1,
            min_entry_tokens: 0,
            exclude_tools: BTreeSet::new(),
        };
        assert_eq!(Settings::parse(text), Ok(expected));
    }

    #[test]
    fn every_refused_option_is_named_with_its_value() {
        let text = refusal(
            r#"{"triggerTokens":0,"triggerRatio":60,"targetTokens":-1,"targetRatio":0,"minClearTokens":1.5,"keepRecentTurns":0,"minEntryTokens":"x","excludeTools":"read","enabled":1,"triggerRatoi":0.5}"#,
        );
        for part in [
            "triggerTokens is 0",
            "triggerRatio is 60",
            "targetTokens is -1",
            "targetRatio is 0",
            "minClearTokens is 1.5",
            "keepRecentTurns is 0",
            "minEntryTokens is \"x\"",
            "excludeTools is \"read\"",
            "enabled is 1",
            "did you mean \"triggerRatio\"?",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(refusal("[]").contains("not a JSON object") && refusal("{").contains("not JSON"));
    }

    #[test]
    fn a_default_target_gives_way_to_a_stated_trigger() {
        let settings = Settings::parse(r#"{"triggerTokens":100000,"triggerRatio":0.35}"#).expect("valid");
        assert_eq!((settings.target_tokens, settings.target_ratio_ppm), (50_000, 175_000));
        let settings = Settings::parse(r#"{"triggerTokens":100001}"#).expect("valid");
        assert_eq!(settings.target_tokens, 100_000);
    }

    #[test]
    fn a_stated_target_that_is_not_below_the_trigger_is_refused() {
        assert!(refusal(r#"{"targetTokens":200000}"#).contains("targetTokens must be below triggerTokens; they are 200000 and 200000"));
        assert!(refusal(r#"{"triggerRatio":0.5,"targetRatio":0.5}"#).contains("targetRatio must be below triggerRatio"));
    }

    #[test]
    fn a_threshold_is_the_lesser_of_tokens_and_share_and_rounds_down() {
        let thresholds = Thresholds::new(&Settings::default(), 33_333).expect("apart");
        assert_eq!(thresholds, Thresholds { trigger: 19_999, target: 11_666, floor: 8_333 });
        assert_eq!(Thresholds::new(&Settings::default(), u64::MAX).expect("apart").trigger, 200_000);
        assert!(Thresholds::new(&Settings::default(), 1).unwrap_err().contains("a context window of 1 tokens"));
    }
}
