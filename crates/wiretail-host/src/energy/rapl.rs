//! The processor's energy counters (RAPL, running average power limit), read through the kernel's powercap
//! interface.
//!
//! ```text
//! sys/class/powercap/intel-rapl:0/{name, energy_uj, max_energy_range_uj}   package-0
//!                    intel-rapl:0:0/                                       core, part of package-0
//!                    intel-rapl:0:2/                                       dram, not part of package-0
//!                    intel-rapl:1/                                         package-1, or psys: the whole platform
//! ```
//!
//! AMD processors use the same names. `intel-rapl-mmio:*` lists the same packages again and is skipped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::EnergyError;

/// Folder of the zones, below the root.
const ZONES: &str = "sys/class/powercap";
/// Prefix of zone names.
const PREFIX: &str = "intel-rapl:";

/// All zones of the machine.
#[derive(Debug)]
pub struct Rapl {
    zones: Vec<Zone>,
    domains: Vec<(String, bool)>,
}

#[derive(Debug)]
struct Zone {
    /// Index of its domain in [`Rapl::domains`].
    domain: usize,
    energy: PathBuf,
    /// Value at which the counter wraps, in µJ; 0 if the kernel does not report it.
    range_uj: u64,
    last_uj: u64,
    /// Energy since the zone was opened.
    total_uj: u64,
}

impl Rapl {
    /// Opens the zones below `root` (`/`, or a recorded tree) and reads them once.
    ///
    /// # Errors
    /// Returns an error if no zone exists or a counter cannot be read.
    pub fn open(root: &Path) -> Result<Self, EnergyError> {
        let folder = root.join(ZONES);
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with(PREFIX))
            .collect();
        names.sort();
        let mut rapl = Self { zones: Vec::new(), domains: Vec::new() };
        for name in names {
            rapl.add(&folder.join(name))?;
        }
        if rapl.zones.is_empty() {
            return Err(EnergyError::NoZones { folder });
        }
        // If only the platform zone has a counter, it is included in the total.
        if rapl.domains.iter().all(|(_, counted)| !counted) {
            rapl.domains.iter_mut().for_each(|(_, counted)| *counted = true);
        }
        Ok(rapl)
    }

    fn add(&mut self, folder: &Path) -> Result<(), EnergyError> {
        let Ok(name) = fs::read_to_string(folder.join("name")) else { return Ok(()) };
        let energy = folder.join("energy_uj");
        let last_uj = match number(&energy) {
            // This zone limits power but has no energy counter.
            Err(EnergyError::Unread { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            read => read?,
        };
        let range_uj = number(&folder.join("max_energy_range_uj")).unwrap_or(0);
        // The name is "package-0", or "package-0-die-1" if a package has several dies.
        let name = name.trim();
        let name = if name.starts_with("package") { "package" } else { name };
        let domain = self.domains.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            // Every other domain either is part of a package or includes the packages.
            self.domains.push((name.to_owned(), matches!(name, "package" | "dram")));
            self.domains.len() - 1
        });
        self.zones.push(Zone { domain, energy, range_uj, last_uj, total_uj: 0 });
        Ok(())
    }

    /// The domains, and whether each is included in the total.
    pub fn domains(&self) -> &[(String, bool)] {
        &self.domains
    }

    /// Energy of each domain in joules since the zones were opened, summed over all sockets. A counter must
    /// not wrap twice between two calls; package counters wrap at intervals of a minute or more.
    ///
    /// # Errors
    /// Returns an error if a counter can no longer be read, or decreased without a wraparound.
    pub fn read(&mut self) -> Result<Vec<f64>, EnergyError> {
        let mut joules = vec![0.0; self.domains.len()];
        for zone in &mut self.zones {
            let now_uj = number(&zone.energy)?;
            zone.total_uj += match now_uj.checked_sub(zone.last_uj) {
                Some(rise) => rise,
                None if zone.range_uj >= zone.last_uj => zone.range_uj - zone.last_uj + now_uj,
                None => {
                    return Err(EnergyError::Backwards {
                        path: zone.energy.clone(),
                        from: zone.last_uj,
                        to: now_uj,
                    });
                }
            };
            zone.last_uj = now_uj;
            joules[zone.domain] += zone.total_uj as f64 / 1e6;
        }
        Ok(joules)
    }
}

fn number(path: &Path) -> Result<u64, EnergyError> {
    let text =
        fs::read_to_string(path).map_err(|source| EnergyError::Unread { path: path.to_owned(), source })?;
    text.trim().parse().map_err(|_| EnergyError::NoNumber { path: path.to_owned(), text })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Creates a recorded tree from zone, name, µJ and range.
    fn tree(zones: &[(&str, &str, u64, u64)]) -> TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (zone, name, uj, range) in zones {
            let folder = root.path().join(ZONES).join(zone);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join("name"), format!("{name}\n")).expect("written");
            fs::write(folder.join("max_energy_range_uj"), format!("{range}\n")).expect("written");
            fs::write(folder.join("energy_uj"), format!("{uj}\n")).expect("written");
        }
        root
    }

    fn set(root: &TempDir, zone: &str, text: &str) {
        fs::write(root.path().join(ZONES).join(zone).join("energy_uj"), text).expect("written");
    }

    const RANGE: u64 = 262_143_328_850;

    #[test]
    fn sums_sockets_and_distinguishes_domains() {
        let root = tree(&[
            ("intel-rapl:0", "package-0", 5_000_000, RANGE),
            ("intel-rapl:0:0", "core", 1_000_000, RANGE),
            ("intel-rapl:0:1", "dram", 0, 65_712_999_613),
            ("intel-rapl:1", "package-1", 7_000_000, RANGE),
            ("intel-rapl:1:1", "dram", 0, 65_712_999_613),
            ("intel-rapl:2", "psys", 0, RANGE),
            ("intel-rapl-mmio:0", "package-0", 5_000_000, RANGE),
        ]);
        // The control type is listed beside its zones.
        fs::create_dir_all(root.path().join(ZONES).join("intel-rapl")).expect("made");
        let mut rapl = Rapl::open(root.path()).unwrap();
        let domain = |name: &str, counted| (name.to_owned(), counted);
        let expected =
            [domain("package", true), domain("core", false), domain("dram", true), domain("psys", false)];
        assert_eq!(rapl.domains(), expected);
        assert_eq!(rapl.read().unwrap(), [0.0; 4]);
        set(&root, "intel-rapl:0", "35000000\n");
        set(&root, "intel-rapl:0:0", "21000000\n");
        set(&root, "intel-rapl:0:1", "4000000\n");
        set(&root, "intel-rapl:1", "17000000\n");
        set(&root, "intel-rapl:1:1", "2500000\n");
        set(&root, "intel-rapl:2", "60000000\n");
        set(&root, "intel-rapl-mmio:0", "35000000\n");
        assert_eq!(rapl.read().unwrap(), [40.0, 20.0, 6.5, 60.0]);
    }

    #[test]
    fn handles_socket_without_dram_counter() {
        let root = tree(&[("intel-rapl:0", "package-0", 1, RANGE)]);
        assert_eq!(Rapl::open(root.path()).unwrap().domains(), [("package".to_owned(), true)]);
        let root = tree(&[("intel-rapl:0", "psys", 1, RANGE)]);
        assert_eq!(Rapl::open(root.path()).unwrap().domains(), [("psys".to_owned(), true)]);
    }

    #[test]
    fn handles_counter_wraparound() {
        let root = tree(&[("intel-rapl:0", "package-0", RANGE - 3_000_000, RANGE)]);
        let mut rapl = Rapl::open(root.path()).unwrap();
        set(&root, "intel-rapl:0", "2000000\n");
        assert_eq!(rapl.read().unwrap(), [5.0]);
        // A second wraparound: 2 J to the end of the range, then 1 J.
        set(&root, "intel-rapl:0", &(RANGE - 2_000_000).to_string());
        rapl.read().unwrap();
        set(&root, "intel-rapl:0", "1000000\n");
        assert_eq!(rapl.read().unwrap(), [(RANGE + 4_000_000) as f64 / 1e6]);
        // A decrease without a matching range is an error.
        let root = tree(&[("intel-rapl:0", "package-0", 9, 0)]);
        let mut rapl = Rapl::open(root.path()).unwrap();
        set(&root, "intel-rapl:0", "8\n");
        let error = rapl.read().unwrap_err().to_string();
        assert!(error.contains("decreased from 9 to 8"), "{error}");
    }

    #[test]
    fn errors_name_next_step() {
        let error = |root: &TempDir| Rapl::open(root.path()).unwrap_err().to_string();
        let none = error(&tempfile::tempdir().expect("a folder"));
        assert!(
            none.starts_with("no powercap zones in ") && none.contains("energy.source = \"command\""),
            "{none}"
        );
        // A folder in place of the file is unreadable even for root.
        let root = tree(&[("intel-rapl:0", "package-0", 1, RANGE)]);
        let file = root.path().join(ZONES).join("intel-rapl:0/energy_uj");
        fs::remove_file(&file).expect("removed");
        fs::create_dir(&file).expect("made");
        assert!(error(&root).contains("energy_uj: cannot be read"), "{}", error(&root));
        let denied = EnergyError::Unread { path: file, source: io::ErrorKind::PermissionDenied.into() };
        assert!(
            denied.to_string().contains("since Linux 5.10 only root can read it: run with sudo"),
            "{denied}"
        );
        let root = tree(&[("intel-rapl:0", "package-0", 1, RANGE)]);
        set(&root, "intel-rapl:0", "soon\n");
        assert!(error(&root).contains("\"soon\" is not a number"), "{}", error(&root));
    }
}
