//! The seven options: parsed, validated whole, or refused by name. Nothing is ever clamped.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The options of the fold policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The band, set whole or not at all.
    pub thresholds: Thresholds,
    /// Tokens a request may hold; the model's context window where not declared.
    pub provider_input_budget: Option<u64>,
    /// Tools whose results stay raw.
    pub blacklist_auto_fold_tools: BTreeSet<String>,
    /// The oldest share of the window whose tool results are clipped at a commit, in millionths; 0 turns clipping off.
    pub tool_fold_threshold_ppm: u32,
    /// Whether the agent is told once that a commit is near.
    pub pre_commit_notice: bool,
    /// How far below the trigger that notice speaks, in millionths of the budget.
    pub notice_lead_share_ppm: u32,
    /// The fold bar's colours; changes no decision.
    pub palette: Palette,
}

/// The band and the sizes of folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A commit fires at this share of the budget, in millionths.
    pub max_target_ppm: u32,
    /// A commit stops at this share of the budget, in millionths.
    pub min_target_ppm: u32,
    /// Visible folds of one depth that become one parent.
    pub consolidate_after: usize,
    /// Bytes of original text a fold has to hide to be worth making.
    pub min_fold_chars: u64,
}

/// Where on a colour map the fold bar begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Palette {
    /// One of [`MAPS`].
    pub map: String,
    /// Position of the most compressed shade, in millionths.
    pub start_ppm: u32,
    /// Position of the pinned shade, in millionths.
    pub end_ppm: u32,
}

/// The colour maps a palette may name.
pub const MAPS: [&str; 5] = ["batlow", "viridis", "plasma", "magma", "cividis"];

const OPTIONS: [&str; 7] =
    ["thresholds", "providerInputBudget", "blacklistAutoFoldTools", "toolFoldThreshold", "preCommitNotice", "noticeLeadShare", "palette"];

impl Default for Settings {
    /// The published 3.0 defaults: band 0.80/0.20, ten roots a parent, 8,000 bytes a fold, clipping over the oldest half.
    fn default() -> Self {
        Settings {
            thresholds: Thresholds { max_target_ppm: 800_000, min_target_ppm: 200_000, consolidate_after: 10, min_fold_chars: 8_000 },
            provider_input_budget: None,
            blacklist_auto_fold_tools: BTreeSet::new(),
            tool_fold_threshold_ppm: 500_000,
            pre_commit_notice: false,
            notice_lead_share_ppm: 100_000,
            palette: Palette { map: "batlow".into(), start_ppm: 0, end_ppm: 1_000_000 },
        }
    }
}

impl Settings {
    /// Reads a JSON object of options; what is not named keeps its default.
    ///
    /// # Errors
    /// Every refused option, one sentence each: the name, the value, the rule.
    ///
    /// ```
    /// use fold_runtime::config::Settings;
    /// let settings = Settings::parse(r#"{"toolFoldThreshold": 0}"#).expect("valid");
    /// assert_eq!(settings.tool_fold_threshold_ppm, 0);
    /// let refused = Settings::parse(r#"{"toolFoldTreshold": 0}"#).unwrap_err();
    /// assert_eq!(refused, ["there is no option \"toolFoldTreshold\"; did you mean \"toolFoldThreshold\"?"]);
    /// ```
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let value: Value = serde_json::from_str(text).map_err(|error| vec![format!("the settings are not JSON: {error}")])?;
        let Value::Object(options) = value else { return Err(vec!["the settings are not a JSON object of options".into()]) };
        let mut settings = Settings::default();
        let mut refused = Vec::new();
        for (name, value) in &options {
            if let Err(reason) = settings.set(name, value) {
                refused.push(reason);
            }
        }
        // Checked when both are known: the lead must leave something below the trigger.
        if refused.is_empty() && !(1..settings.thresholds.max_target_ppm).contains(&settings.notice_lead_share_ppm) {
            refused.push("noticeLeadShare must lie above 0 and below thresholds.maxTarget".into());
        }
        if refused.is_empty() { Ok(settings) } else { Err(refused) }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "thresholds" => self.thresholds = thresholds(value)?,
            "providerInputBudget" => {
                let budget = value.as_u64().filter(|budget| *budget > 0);
                self.provider_input_budget = Some(budget.ok_or_else(|| refuse(name, value, "a whole number of tokens above 0"))?);
            }
            "blacklistAutoFoldTools" => {
                let names = value.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
                self.blacklist_auto_fold_tools = names.ok_or_else(|| refuse(name, value, "a list of tool names"))?;
            }
            "toolFoldThreshold" => {
                let share = share(value).filter(|share| *share < 1_000_000);
                self.tool_fold_threshold_ppm = share.ok_or_else(|| refuse(name, value, "a share from 0 (off) to below 1"))?;
            }
            "preCommitNotice" => self.pre_commit_notice = value.as_bool().ok_or_else(|| refuse(name, value, "true or false"))?,
            "noticeLeadShare" => {
                self.notice_lead_share_ppm = share(value).ok_or_else(|| refuse(name, value, "a share above 0 and below thresholds.maxTarget"))?;
            }
            "palette" => self.palette = palette(value)?,
            unknown => return Err(format!("there is no option \"{unknown}\"; did you mean \"{}\"?", nearest(unknown, &OPTIONS))),
        }
        Ok(())
    }
}

fn thresholds(value: &Value) -> Result<Thresholds, String> {
    const NAMES: [&str; 4] = ["maxTarget", "minTarget", "consolidateAfter", "minFoldChars"];
    let fields = whole("thresholds", value, &NAMES)?;
    let ratio = |name: &str| {
        share(&fields[name]).ok_or_else(|| refuse(&format!("thresholds.{name}"), &fields[name], "a share of the budget between 0 and 1"))
    };
    let count = |name: &str, least: u64| {
        let count = fields[name].as_u64().filter(|count| *count >= least);
        count.ok_or_else(|| refuse(&format!("thresholds.{name}"), &fields[name], &format!("a whole number of at least {least}")))
    };
    let (max, min) = (ratio("maxTarget")?, ratio("minTarget")?);
    if !(0 < min && min < max && max < 1_000_000) {
        return Err(format!(
            "thresholds need 0 < minTarget < maxTarget < 1; they are minTarget {} and maxTarget {}",
            fields["minTarget"], fields["maxTarget"]
        ));
    }
    let consolidate_after = usize::try_from(count("consolidateAfter", 2)?).map_err(|_| "thresholds.consolidateAfter is too large".to_owned())?;
    Ok(Thresholds { max_target_ppm: max, min_target_ppm: min, consolidate_after, min_fold_chars: count("minFoldChars", 1)? })
}

fn palette(value: &Value) -> Result<Palette, String> {
    let fields = whole("palette", value, &["map", "start", "end"])?;
    let map = fields["map"].as_str().filter(|map| MAPS.contains(map));
    let map = map.ok_or_else(|| refuse("palette.map", &fields["map"], &format!("one of {}", MAPS.join(", "))))?;
    let place = |name: &str| share(&fields[name]).ok_or_else(|| refuse(&format!("palette.{name}"), &fields[name], "a position from 0 to 1"));
    let (start_ppm, end_ppm) = (place("start")?, place("end")?);
    if start_ppm == end_ppm {
        return Err(format!("palette.start and palette.end are both {}; a bar needs two ends", fields["start"]));
    }
    Ok(Palette { map: map.to_owned(), start_ppm, end_ppm })
}

/// An option that is set whole or not at all: exactly these fields.
fn whole<'a>(option: &str, value: &'a Value, names: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let fields = value.as_object().ok_or_else(|| refuse(option, value, &format!("an object with {}", names.join(", "))))?;
    if let Some(unknown) = fields.keys().find(|field| !names.contains(&field.as_str())) {
        return Err(format!("{option} has no \"{unknown}\"; did you mean \"{}\"?", nearest(unknown, names)));
    }
    match names.iter().find(|name| !fields.contains_key(**name)) {
        Some(missing) => Err(format!("{option} is set whole or not at all; \"{missing}\" is missing")),
        None => Ok(fields),
    }
}

/// A share from 0 to 1 in millionths; finer steps do not exist.
pub(crate) fn share(value: &Value) -> Option<u32> {
    let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1,000,000")]
    Some((share * 1_000_000.0).round() as u32)
}

pub(crate) fn refuse(name: &str, value: &Value, rule: &str) -> String {
    format!("{name} is {value}; it must be {rule}")
}

/// The known name that takes the fewest single-letter changes.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> &'a str {
    known.iter().min_by_key(|known| distance(name, known)).expect("there are known names")
}

fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
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
    fn thresholds_come_whole_and_in_order() {
        let parsed = Settings::parse(r#"{"thresholds":{"maxTarget":0.5,"minTarget":0.1,"consolidateAfter":2,"minFoldChars":1}}"#).expect("valid");
        assert_eq!(parsed.thresholds, Thresholds { max_target_ppm: 500_000, min_target_ppm: 100_000, consolidate_after: 2, min_fold_chars: 1 });
        assert!(refusal(r#"{"thresholds":{"maxTarget":0.5}}"#).contains("\"minTarget\" is missing"));
        assert!(
            refusal(r#"{"thresholds":{"maxTarget":0.2,"minTarget":0.8,"consolidateAfter":10,"minFoldChars":8000}}"#)
                .contains("0 < minTarget < maxTarget < 1")
        );
        assert!(refusal(r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":1,"minFoldChars":8000}}"#).contains("at least 2"));
        assert!(
            refusal(r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":10,"minFoldChar":8000}}"#)
                .contains("did you mean \"minFoldChars\"?")
        );
    }

    #[test]
    fn every_refused_option_is_named_with_its_value() {
        let text = refusal(r#"{"providerInputBudget":-1,"preCommitNotice":"yes","toolFoldThreshold":1,"blacklistAutoFoldTools":"read"}"#);
        for part in ["providerInputBudget is -1", "preCommitNotice is \"yes\"", "toolFoldThreshold is 1", "blacklistAutoFoldTools is \"read\""] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_palette_may_run_backwards_but_not_stand_still() {
        assert!(Settings::parse(r#"{"palette":{"map":"magma","start":1,"end":0}}"#).is_ok());
        assert!(refusal(r#"{"palette":{"map":"magma","start":1,"end":1}}"#).contains("two ends"));
        assert!(refusal(r#"{"palette":{"map":"jet","start":1,"end":0}}"#).contains("one of batlow"));
    }

    #[test]
    fn a_notice_must_speak_before_the_commit() {
        assert!(refusal(r#"{"noticeLeadShare":0.8}"#).contains("below thresholds.maxTarget"));
        assert!(refusal(r#"{"noticeLeadShare":0}"#).contains("above 0"));
    }
}
