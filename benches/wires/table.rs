//! Prints medians over rounds as Markdown tables.

use std::collections::BTreeMap;

use crate::load::Sample;

/// The server of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// Our server.
    Ours,
    /// The bare server.
    Bare,
    /// The bare server with all events available at once.
    Burst,
}

/// All samples by cell, in the order of the first round.
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

    /// Returns the median of a figure, or `None` if it was not measured.
    pub fn median(&self, cell: &str, of: Of, figure: fn(&Sample) -> f64) -> Option<f64> {
        let samples = &self.cells.iter().find(|(name, _)| name == cell)?.1;
        median(samples.get(&of)?.iter().map(figure).collect())
    }

    /// Returns the median over rounds of the ratio between our server's figure and the other's.
    pub fn ratio(&self, cell: &str, of: Of, figure: fn(&Sample) -> f64) -> Option<f64> {
        let samples = &self.cells.iter().find(|(name, _)| name == cell)?.1;
        let pairs = samples.get(&Of::Ours)?.iter().zip(samples.get(&of)?);
        median(pairs.map(|(ours, other)| figure(ours) / figure(other)).collect())
    }

    /// Prints a table of the cells whose name begins with a prefix.
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

    /// Prints failed calls, and how far other load may have affected the figures.
    pub fn print_doubts(&self) {
        let all = || self.cells.iter().flat_map(|(cell, of)| of.iter().map(move |(of, samples)| (cell, of, samples)));
        for (cell, of, samples) in all() {
            for (count, why) in samples.iter().filter_map(|sample| sample.failed.as_ref()) {
                println!("\n{cell}, {of:?}: {count} calls failed; the first: {why}");
            }
        }
        let most = |figure: fn(&Sample) -> f64| all().flat_map(|(.., samples)| samples).map(figure).fold(0.0, f64::max);
        let others = median(all().flat_map(|(.., samples)| samples).map(|sample| sample.others).collect());
        if let Some(others) = others {
            let most = most(|sample| sample.others);
            println!("\nOther processes used {others:.2} cores (median of all cells; at most {most:.2}).");
        }
        let client = most(|sample| sample.client);
        println!(
            "The client used at most {client:.2} of its core; near 1.00 it limits the rate, but not the CPU time."
        );
    }
}

/// The content of a column.
#[derive(Clone, Copy)]
pub enum Column {
    /// A figure of one server.
    Figure(Of, fn(&Sample) -> f64),
    /// The ratio between our server and another.
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

/// Prints a figure with three digits.
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

/// Prints a figure with its target.
pub fn print_mark(what: &str, value: Option<f64>, most: f64, unit: &str) {
    if let Some(value) = value {
        let verdict = if value <= most { "met" } else { "missed" };
        println!("| {what} | {}{unit} | {}{unit} | {verdict} |", short(value), short(most));
    }
}
