//! Formats rows below headings, aligned as in kubectl.

use jiff::Timestamp;

/// A row of a table.
pub(in crate::cli) trait Row {
    /// Headings; those that only a wide table shows come last.
    const COLUMNS: &'static [&'static str];
    /// Number of columns that only a wide table shows.
    const WIDE: usize;

    /// Kind and name, as printed by `kubectl get -o name`.
    fn name(&self) -> String;

    /// Returns true if both rows are about the same object.
    fn is_of_same(&self, other: &Self) -> bool;

    /// Returns a cell for each column, as of `now`; an empty cell is shown as `-`.
    fn cells(&self, now: Timestamp) -> Vec<String>;
}

/// Minimum gap between two columns.
const GAP: usize = 3;

/// Minimum column width of rows that are printed later by a watch.
const AT_LEAST: usize = 8;

/// Formats headings and rows.
pub(in crate::cli) fn page<T: Row>(rows: &[T], wide: bool, now: Timestamp) -> String {
    let headings = shown::<T>(T::COLUMNS.iter().map(|heading| (*heading).to_owned()), wide);
    let mut lines = vec![headings];
    lines.extend(rows.iter().map(|row| shown::<T>(row.cells(now), wide)));
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        })
        .collect();
    lines.iter().map(|line| align(line, &widths)).collect()
}

/// Formats one more row below a printed page.
pub(super) fn line<T: Row>(row: &T, wide: bool, now: Timestamp) -> String {
    let widths = T::COLUMNS.iter().map(|heading| heading.len().max(AT_LEAST));
    align(&shown::<T>(row.cells(now), wide), &widths.collect::<Vec<_>>())
}

fn shown<T: Row>(cells: impl IntoIterator<Item = String>, wide: bool) -> Vec<String> {
    let count = if wide {
        T::COLUMNS.len()
    } else {
        T::COLUMNS.len() - T::WIDE
    };
    let cells = cells.into_iter().take(count);
    cells
        .map(|cell| if cell.is_empty() { "-".to_owned() } else { cell })
        .collect()
}

fn align(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(cell);
        let padding = width.saturating_sub(cell.chars().count()) + GAP;
        line.extend(std::iter::repeat_n(' ', padding));
    }
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ship(&'static str, &'static str);

    impl Row for Ship {
        const COLUMNS: &'static [&'static str] = &["NAME", "PORT"];
        const WIDE: usize = 1;

        fn name(&self) -> String {
            format!("ship/{}", self.0)
        }

        fn is_of_same(&self, other: &Self) -> bool {
            self.0 == other.0
        }

        fn cells(&self, _: Timestamp) -> Vec<String> {
            vec![self.0.to_owned(), self.1.to_owned()]
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_empty_cells_are_dashes() {
        let rows = [Ship("Argo", "Iolkos"), Ship("Großer Kurfürst", "")];
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            page(&rows, true, now),
            "NAME              PORT\nArgo              Iolkos\nGroßer Kurfürst   -\n"
        );
        assert_eq!(page(&rows[..1], false, now), "NAME\nArgo\n");
        assert_eq!(line(&rows[0], true, now), "Argo       Iolkos\n");
    }
}
