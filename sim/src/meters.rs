//! The same requests before several providers: what each one's cache would have read and written of them, and what that would have cost.
//!
//! A session takes the same course whoever caches it, as far as its window goes: so one run is enough for all of them. Every provider is taken to count
//! tokens as the simulated one does; what differs is the rule of its cache and its price.

use fold_models::cache::ends::MessageEnds;
use fold_models::cache::markers::Markers;
use fold_models::cache::paged::Paged;
use fold_models::cache::prefix::OpenAiCache;
use fold_models::cache::units::Units;
use fold_models::cache::{Cache, Served, ends, markers, paged, prefix, units};
use fold_models::price::{Prices, Row, Totals, Used};
use fold_models::wire::Chain;

/// A cache by its rules, of which an empty one can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// The longest prefix two requests share, in steps.
    Steps(prefix::Rules),
    /// Prefixes that end with a message.
    Ends(ends::Rules),
    /// Prefixes that end at a marked block.
    Markers(markers::Rules),
    /// Whole prefix units.
    Units(units::Rules),
    /// Blocks of tokens in a memory.
    Paged(paged::Rules),
}

impl Geometry {
    /// A cache with nothing in it.
    pub fn empty(self) -> Box<dyn Cache> {
        match self {
            Geometry::Steps(rules) => Box::new(OpenAiCache::new(rules)),
            Geometry::Ends(rules) => Box::new(MessageEnds::new(rules)),
            Geometry::Markers(rules) => Box::new(Markers::new(rules)),
            Geometry::Units(rules) => Box::new(Units::new(rules)),
            Geometry::Paged(rules) => Box::new(Paged::new(rules)),
        }
    }
}

/// One provider's cache and price.
#[derive(Debug)]
pub struct Meter {
    /// The geometry, in words.
    pub cache: &'static str,
    /// The same by its rules.
    pub geometry: Geometry,
    /// The model whose price is taken; nothing where whoever runs the model pays for the machine.
    pub price: Option<Row>,
    /// What was used and what it cost; without a price no dollars.
    pub totals: Totals,
    rule: Box<dyn Cache>,
    served: Served,
}

/// Every provider that is modelled.
#[derive(Debug)]
pub struct Meters {
    meters: Vec<Meter>,
    /// Tokens of every request that left.
    prompts: Vec<u64>,
}

impl Meters {
    /// All of them, with nothing in their caches.
    ///
    /// # Panics
    /// If the bundled prices lack one of their models.
    pub fn all() -> Self {
        let prices = Prices::bundled();
        let row = |model: &str| prices.newest(model).cloned().unwrap_or_else(|| panic!("the price table has no {model}"));
        let hour = row("claude-opus-4-8").for_an_hour().unwrap_or_else(|| panic!("the price table has no hour of claude-opus-4-8"));
        let meter = |cache, price, geometry: Geometry| Meter {
            cache,
            geometry,
            price,
            totals: Totals::default(),
            rule: geometry.empty(),
            served: Served::default(),
        };
        let meters = vec![
            meter("steps of 128", Some(row("gpt-5.4")), Geometry::Steps(prefix::Rules::IN_MEMORY)),
            meter("steps of 2,048", Some(row("gpt-5.5")), Geometry::Steps(prefix::Rules::GPT_5_5)),
            meter("message ends", Some(row("gpt-5.6-sol")), Geometry::Ends(ends::Rules::GPT_5_6)),
            meter("markers, 5 minutes", Some(row("claude-opus-4-8")), Geometry::Markers(markers::Rules::FIVE_MINUTES)),
            meter("markers, an hour", Some(hour), Geometry::Markers(markers::Rules::ONE_HOUR)),
            meter("markers, the spare one behind the folds", Some(row("claude-opus-4-8")), Geometry::Markers(markers::Rules::SPARE_MARKER)),
            meter("whole units", Some(row("deepseek-flash")), Geometry::Units(units::Rules::DEEPSEEK)),
            meter("blocks of 16", None, Geometry::Paged(paged::Rules::VLLM)),
            meter("radix", None, Geometry::Paged(paged::Rules::SGLANG)),
        ];
        Meters { meters, prompts: Vec::new() }
    }

    /// Each of them, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &Meter> {
        self.meters.iter()
    }

    /// Tokens of every request that left, in their order.
    pub fn prompts(&self) -> &[u64] {
        &self.prompts
    }

    /// A request leaves.
    pub(crate) fn request(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) {
        self.prompts.push(chain.tokens());
        for meter in &mut self.meters {
            meter.served = meter.rule.serve(chain, now_ms, answer_at_ms);
        }
    }

    /// The request that left last, of so many tokens, was answered with so many.
    pub(crate) fn answered(&mut self, prompt: u64, output: u64) {
        for meter in &mut self.meters {
            let Served { read, written } = meter.served;
            meter.add(Used { fresh: prompt - read - written, cached: read, written, output });
        }
    }

    /// So many tokens that the model wrote in an answer beside what the plan has of it.
    pub(crate) fn wrote(&mut self, output: u64) {
        for meter in &mut self.meters {
            meter.add(Used { output, ..Used::default() });
            meter.totals.requests -= 1;
        }
    }

    /// A request beside the session's, a summarizer's, which no cache knows.
    pub(crate) fn beside(&mut self, used: Used) {
        for meter in &mut self.meters {
            meter.add(used);
        }
    }
}

impl Meter {
    fn add(&mut self, used: Used) {
        let cost = self.price.as_ref().map_or_else(Default::default, |row| row.cost(used));
        self.totals.add(used, cost);
    }
}
