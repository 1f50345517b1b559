//! Interrupt counters: the published `irq.csv`, and `/proc/interrupts`.
//!
//! `irq.csv` uses semicolons and has a header and one line per reading. The columns may be in any order.
//! `timestamp_us` is the time on the reader's clock, in µs. `<vector>_<description>_CPU<n>`, with underscores
//! instead of spaces, is the number of interrupts since boot. In the published files, the leading digits of
//! the time are cut off, so only differences of times are used.
//!
//! `/proc/interrupts` has a header with the CPUs and one line per vector: `TLB:  12  7   TLB shootdowns` (the
//! kernel's `fs/proc/interrupts.c` and `kernel/irq/proc.c`).

use std::collections::BTreeMap;

use wiretail_schema::causes::capture::{InterruptColumn, InterruptRow, InterruptTable};

/// Maximum number of columns, and of lines. This is enough to read the counters of a machine with a thousand
/// cores for a day.
const COLUMNS_MAX: usize = 1 << 20;
const CELLS_MAX: usize = 1 << 26;
/// Name of the column with the time.
const TIME: &str = "timestamp_us";

/// An error in the text of interrupt counters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {found}; expected {expected}")]
pub struct InterruptsError {
    /// Line, starting at 1.
    pub line: usize,
    /// The unexpected content.
    pub found: String,
    /// The expected content, and the next step.
    pub expected: &'static str,
}

fn error(line: usize, found: impl Into<String>, expected: &'static str) -> InterruptsError {
    InterruptsError { line, found: found.into(), expected }
}

/// The beginning of a text, for messages.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("'{}'", short.escape_debug())
}

/// Parses `irq.csv`.
///
/// # Errors
/// Returns an error for a header without a time or without counters, for a cell that is not a number, for a
/// line with a different number of cells, and for times that do not increase.
pub fn parse_irq_csv(text: &str) -> Result<InterruptTable, InterruptsError> {
    const HEADER: &str = "a header with columns separated by ;, one named timestamp_us, the others with names that end in _CPU<n>";
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or_else(|| error(1, "nothing", HEADER))?;
    let names: Vec<&str> = header.trim_start_matches('\u{feff}').trim().split(';').collect();
    if names.len() > COLUMNS_MAX {
        return Err(error(1, format!("{} columns", names.len()), HEADER));
    }
    let time = names.iter().position(|name| *name == TIME);
    let time = time.ok_or_else(|| error(1, format!("{}, no column {TIME}", shown(header)), HEADER))?;
    let mut table = InterruptTable::default();
    for (place, name) in names.iter().enumerate().filter(|(place, _)| *place != time) {
        let column = column(name);
        let column =
            column.ok_or_else(|| error(1, format!("column {} is {}", place + 1, shown(name)), HEADER))?;
        table.columns.push(column);
    }
    let mut cells = 0;
    for (place, line) in lines {
        const LINE: &str = "an integer for each column; remove the line if the recording was stopped while the line was written";
        let found: Vec<&str> = line.trim().split(';').collect();
        if found.len() != names.len() {
            let what = format!("{} cells, but the header has {}", found.len(), names.len());
            return Err(error(place + 1, what, LINE));
        }
        let wrong = |cell: &str| error(place + 1, shown(cell), LINE);
        let at_us: i64 = found[time].parse().map_err(|_| wrong(found[time]))?;
        if table.rows.last().is_some_and(|before| at_us <= before.at_us) {
            let what = format!("time {at_us} is not after the time of the previous line");
            return Err(error(place + 1, what, "readings in order of time: sort the lines by timestamp_us"));
        }
        let counts = found.iter().enumerate().filter(|(column, _)| *column != time);
        let counts: Result<Vec<u64>, _> =
            counts.map(|(_, cell)| cell.parse().map_err(|_| wrong(cell))).collect();
        table.rows.push(InterruptRow { at_us, counts: counts? });
        cells += names.len();
        if cells > CELLS_MAX {
            return Err(error(
                place + 1,
                "too many readings",
                "a file with at most 64 million counters; split the file",
            ));
        }
    }
    if table.rows.len() < 2 {
        let what = format!("{} readings", table.rows.len());
        return Err(error(1, what, "two or more readings, because only differences between them are used"));
    }
    Ok(table)
}

/// Parses a column name such as `TLB_TLB_shootdowns_CPU2`.
fn column(name: &str) -> Option<InterruptColumn> {
    let (what, cpu) = name.rsplit_once("_CPU")?;
    let cpu = cpu.parse().ok()?;
    let (vector, description) = what.split_once('_').unwrap_or((what, ""));
    if vector.is_empty() {
        return None;
    }
    Some(InterruptColumn { cpu, name: label(vector, &description.replace('_', " ")) })
}

/// Returns "TLB shootdowns (TLB)", or "33 PCI-MSI 32769-edge virtio0" for numbered vectors.
fn label(vector: &str, description: &str) -> String {
    let description = description.trim();
    if description.is_empty() {
        vector.to_owned()
    } else if vector.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("{vector} {description}")
    } else {
        format!("{description} ({vector})")
    }
}

/// Parses two or more texts of `/proc/interrupts`, in order of time, each with the time of its reading in µs.
/// Vectors that are missing from any text are omitted.
///
/// # Errors
/// Returns an error for fewer than two texts, for a text without the header of CPUs, and for a counter that
/// is not a number.
pub fn parse_proc_interrupts(readings: &[(i64, &str)]) -> Result<InterruptTable, InterruptsError> {
    const HEADER: &str = "the text of /proc/interrupts, with CPU0 CPU1 ... in its first line";
    if readings.len() < 2 {
        return Err(error(1, format!("{} readings", readings.len()), "two readings or more"));
    }
    let mut parsed: Vec<(i64, BTreeMap<InterruptColumn, u64>)> = Vec::new();
    for (at_us, text) in readings {
        let mut lines = text.lines().enumerate();
        let (_, header) = lines.next().ok_or_else(|| error(1, "nothing", HEADER))?;
        let cpus: Option<Vec<u32>> =
            header.split_whitespace().map(|cpu| cpu.strip_prefix("CPU")?.parse().ok()).collect();
        let cpus = cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(|| error(1, shown(header), HEADER))?;
        let mut counts = BTreeMap::new();
        for (place, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = || error(place + 1, shown(line), "a vector, a colon and a number for each CPU");
            let (vector, rest) = line.trim().split_once(':').ok_or_else(wrong)?;
            let mut words = rest.split_whitespace().peekable();
            let mut values = Vec::new();
            // ERR and MIS are counted per machine and not per CPU, so they have a single number.
            while values.len() < cpus.len()
                && let Some(value) = words.peek().and_then(|word| word.parse::<u64>().ok())
            {
                values.push(value);
                words.next();
            }
            if values.is_empty() {
                return Err(wrong());
            }
            let description = words.collect::<Vec<_>>().join(" ");
            let name = label(vector, &description);
            for (cpu, value) in cpus.iter().zip(values) {
                counts.insert(InterruptColumn { cpu: *cpu, name: name.clone() }, value);
            }
        }
        parsed.push((*at_us, counts));
    }
    let everywhere =
        |column: &&InterruptColumn| parsed.iter().all(|(_, counts)| counts.contains_key(*column));
    let columns: Vec<InterruptColumn> = parsed[0].1.keys().filter(everywhere).cloned().collect();
    let rows = parsed.iter().map(|(at_us, counts)| InterruptRow {
        at_us: *at_us,
        counts: columns.iter().map(|column| counts.get(column).copied().unwrap_or(0)).collect(),
    });
    let rows = rows.collect();
    Ok(InterruptTable { columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "LOC_Local_timer_interrupts_CPU1;timestamp_us;33_PCI-MSI_32769-edge_virtio0-input.0_CPU0;ERR_CPU0\n\
                       7;106;3;0\n9;1001422;3;0\n";

    #[test]
    fn columns_are_read_in_any_order() {
        let table = parse_irq_csv(CSV).unwrap();
        let names: Vec<(u32, &str)> =
            table.columns.iter().map(|column| (column.cpu, column.name.as_str())).collect();
        assert_eq!(
            names,
            [(1, "Local timer interrupts (LOC)"), (0, "33 PCI-MSI 32769-edge virtio0-input.0"), (0, "ERR")]
        );
        assert_eq!(table.rows[1], InterruptRow { at_us: 1_001_422, counts: vec![9, 3, 0] });
    }

    #[test]
    fn errors_name_the_line_and_the_expected_content() {
        for (text, line, part) in [
            ("", 1, "nothing"),
            ("a;b\n", 1, "no column timestamp_us"),
            ("timestamp_us;abc\n", 1, "column 2 is 'abc'"),
            ("timestamp_us;X_CPUy\n", 1, "column 2"),
            ("timestamp_us;LOC_x_CPU0\n1;2\n", 1, "1 readings"),
            ("timestamp_us;LOC_x_CPU0\n1;2\n5\n", 3, "1 cells"),
            ("timestamp_us;LOC_x_CPU0\n1;2\n2;-3\n", 3, "'-3'"),
            ("timestamp_us;LOC_x_CPU0\n1;2\n1;3\n", 3, "is not after"),
        ] {
            let error = parse_irq_csv(text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn parses_two_readings_of_proc_interrupts() {
        let before = "           CPU0       CPU2\n  0:         12          0   IO-APIC   2-edge      timer\n\
                      TLB:          1          4   TLB shootdowns\nERR:          3\n 99: 1 1 PCI-MSI gone\n";
        let after =
            before.replace("          4   TLB", "          9   TLB").replace(" 99: 1 1 PCI-MSI gone\n", "");
        let table = parse_proc_interrupts(&[(0, before), (5_000_000, &after)]).unwrap();
        let place = |cpu, name: &str| {
            table.columns.iter().position(|column| column.cpu == cpu && column.name == name).unwrap()
        };
        let tlb = place(2, "TLB shootdowns (TLB)");
        assert_eq!((table.rows[0].counts[tlb], table.rows[1].counts[tlb]), (4, 9));
        assert_eq!(table.rows[0].counts[place(0, "0 IO-APIC 2-edge timer")], 12);
        assert!(!table.columns.iter().any(|column| column.name.contains("gone")));
        for wrong in ["", "hello", "CPU0\nLOC", "CPU0\nLOC: x"] {
            assert!(parse_proc_interrupts(&[(0, wrong), (1, wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic() {
        let bytes = CSV.as_bytes();
        for cut in 0..bytes.len() {
            for with in *b";\n_9\xff" {
                let mut changed = bytes.to_vec();
                changed[cut] = with;
                let _ = parse_irq_csv(&String::from_utf8_lossy(&changed));
                let _ = parse_irq_csv(&String::from_utf8_lossy(&changed[..cut]));
                let _ = parse_proc_interrupts(&[(0, &String::from_utf8_lossy(&changed)), (1, CSV)]);
            }
        }
    }
}
