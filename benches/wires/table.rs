//! Medians over rounds, as tables that a README can cite.

use std::collections::BTreeMap;

use crate::load::Sample;

/// Which server a sample is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// Ours.
    Ours,
    /// The bare one.
    Bare,
    /// The bare one where all events are there at once.
    Burst,
}

/// All samples, by cell in the order of the first round.
#[derive(Default)]
pub struct Samples {
    cells: Vec<(String, BTreeMap<Of, Vec<Sample>>)>,
}

impl Samples {
    pub fn add(&mut self, cell: &str, of: Of, sample: Sample) {
        let at = self.cells.iter().position(|(name, _)| name == cell).unwrap_or_else(|| {
            self.cells.push((cell.to_owned(), BTreeMap::new()));
            self.cells.len() - 1
        });
        self.cells[at].1.entry(of).or_default().push(sample);
    }

    /// The median of a figure; `None` where nothing was measured.
    pub fn median(&self, cell: &str, of: Of, figure: fn(&Sample) -> f64) -> Option<f64> {
        let samples = &self.cells.iter().find(|(name, _)| name == cell)?.1;
        median(samples.get(&of)?.iter().map(figure).collect())
    }

    /// The median over rounds of how much of a figure ours has for each that the other has.
    pub fn ratio(&self, cell: &str, of: Of, figure: fn(&Sample) -> f64) -> Option<f64> {
        let samples = &self.cells.iter().find(|(name, _)| name == cell)?.1;
        let pairs = samples.get(&Of::Ours)?.iter().zip(samples.get(&of)?);
        median(pairs.map(|(ours, other)| figure(ours) / figure(other)).collect())
    }

    /// Rows of a table: the cells whose name begins so, and what each column says of them.
    pub fn print(&self, title: &str, begins: &str, columns: &[(&str, Column)]) {
        let mut rows = self.cells.iter().filter(|(name, _)| name.starts_with(begins)).peekable();
        if rows.peek().is_none() {
            return;
        }
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        println!("\n### {title}\n\n| | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
        for (cell, _) in rows {
            let values: Vec<_> = columns.iter().map(|(_, column)| column.of(self, cell)).collect();
            println!("| {} | {} |", cell.trim_start_matches(begins).trim_start(), values.join(" | "));
        }
    }

    /// What did not count, and whether the figures are to be trusted.
    pub fn print_doubts(&self) {
        let all = || self.cells.iter().flat_map(|(cell, of)| of.iter().map(move |(of, samples)| (cell, of, samples)));
        for (cell, of, samples) in all() {
            for (count, why) in samples.iter().filter_map(|sample| sample.failed.as_ref()) {
                println!("\n{cell}, {of:?}: {count} calls do not count; the first: {why}");
            }
        }
        let most = |figure: fn(&Sample) -> f64| all().flat_map(|(.., samples)| samples).map(figure).fold(0.0, f64::max);
        let others = median(all().flat_map(|(.., samples)| samples).map(|sample| sample.others).collect());
        if let Some(others) = others {
            let most = most(|sample| sample.others);
            println!("\nOther processes took {others:.2} cores (median of all cells; at most {most:.2}).");
        }
        let client = most(|sample| sample.client);
        println!(
            "The client took at most {client:.2} of its core; near 1.00 it is what limits the rate, not the CPU time."
        );
    }
}

/// What a column says.
#[derive(Clone, Copy)]
pub enum Column {
    /// A figure of one server.
    Figure(Of, fn(&Sample) -> f64),
    /// How much of it ours has for each that another has.
    Ratio(Of, fn(&Sample) -> f64),
}

impl Column {
    fn of(self, samples: &Samples, cell: &str) -> String {
        let (value, unit) = match self {
            Self::Figure(of, figure) => (samples.median(cell, of, figure), ""),
            Self::Ratio(of, figure) => (samples.ratio(cell, of, figure), "x"),
        };
        value.map_or_else(|| "-".to_owned(), |value| format!("{}{unit}", short(value)))
    }
}

/// Three digits of it are enough.
pub fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A figure, and what it is held against.
pub fn print_mark(what: &str, value: Option<f64>, most: f64, unit: &str) {
    if let Some(value) = value {
        let verdict = if value <= most { "met" } else { "missed" };
        println!("| {what} | {}{unit} | {}{unit} | {verdict} |", short(value), short(most));
    }
}
