//! Settings of a NIC, as shown by `ethtool`: one setting per line, with the names from the kernel
//! documentation.
//!
//! Message layouts: Documentation/networking/ethtool-netlink.rst of the kernel.

use std::fmt::Write;
use std::io;

use super::generic::{FEATURES_ACTIVE, FEATURES_GET, GenericNetlink, set_bits};
use super::message::u32_at;

/// A command, and the attributes to read from its reply: number, name, format.
type Wanted = (u8, &'static [(u16, &'static str, Kind)]);

/// Output format of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A 32-bit number.
    Number,
    /// An 8-bit value: on or off.
    Switch,
    /// Comma-separated names of the bits that are set, or "none".
    Names,
}

/// Numbers of commands and attributes: include/uapi/linux/ethtool_netlink.h.
const WANTED: [Wanted; 8] = [
    (4, &[(5, "speed-mbps", Kind::Number)]),
    (FEATURES_GET, &[(FEATURES_ACTIVE, "features", Kind::Names)]),
    (15, &[(2, "rx-ring-max", Kind::Number), (6, "rx-ring", Kind::Number), (9, "tx-ring", Kind::Number)]),
    (
        17,
        &[
            (6, "rx-channels", Kind::Number),
            (7, "tx-channels", Kind::Number),
            (9, "combined-channels", Kind::Number),
        ],
    ),
    (
        19,
        &[
            (2, "rx-usecs", Kind::Number),
            (3, "rx-frames", Kind::Number),
            (6, "tx-usecs", Kind::Number),
            (11, "adaptive-rx", Kind::Switch),
            (12, "adaptive-tx", Kind::Switch),
        ],
    ),
    (21, &[(3, "rx-pause", Kind::Switch), (4, "tx-pause", Kind::Switch)]),
    (23, &[(5, "eee", Kind::Switch)]),
    (25, &[(2, "timestamping", Kind::Names), (5, "phc-index", Kind::Number)]),
];

impl GenericNetlink {
    /// Reads the settings of a link. Settings that its driver does not support are skipped.
    ///
    /// # Errors
    /// Returns `ENODEV` if the link does not exist, and `NotFound` if the kernel has no ethtool netlink
    /// family.
    pub(crate) fn settings(&mut self, link: &str) -> io::Result<String> {
        let mut text = String::new();
        for (command, wanted) in WANTED {
            let answer = self.ethtool(command, link, |attribute, value| {
                let Some((_, name, kind)) = wanted.iter().find(|(number, ..)| *number == attribute) else {
                    return;
                };
                if let Some(value) = shown(*kind, value) {
                    let _ = writeln!(text, "{name} {value}");
                }
            });
            match answer {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                other => other?,
            }
        }
        Ok(text)
    }
}

fn shown(kind: Kind, value: &[u8]) -> Option<String> {
    match kind {
        Kind::Number => u32_at(value, 0).map(|number| number.to_string()),
        Kind::Switch => value.first().map(|on| if *on == 0 { "off" } else { "on" }.to_owned()),
        Kind::Names => {
            let names: Vec<String> = set_bits(value).collect();
            Some(if names.is_empty() { "none".to_owned() } else { names.join(",") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings_without_privileges() {
        let mut netlink = GenericNetlink::open().expect("a socket");
        match netlink.settings("lo") {
            Ok(text) => assert!(text.lines().any(|line| line.starts_with("features ")), "{text}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
        }
        assert!(netlink.settings("no-such-link").is_err());
    }

    #[test]
    fn formats_values_by_kind() {
        assert_eq!(shown(Kind::Number, &7_u32.to_ne_bytes()), Some("7".to_owned()));
        assert_eq!(shown(Kind::Switch, &[1]), Some("on".to_owned()));
        assert_eq!(shown(Kind::Names, &[]), Some("none".to_owned()));
        assert_eq!((shown(Kind::Number, &[1]), shown(Kind::Switch, &[])), (None, None));
    }
}
