//! Kernel settings that an experiment changes during a trial (`host.sysctl`).

use std::fmt;
use std::str::FromStr;

/// A kernel setting: a file below `/proc/sys`, and the value to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctl {
    /// Name as written in the experiment: `net.core.busy_poll` or `net/core/busy_poll`.
    pub name: String,
    /// Value as the kernel expects it. It may consist of several words.
    pub value: String,
}

impl Sysctl {
    /// Returns the path below `/proc/sys`: `net/core/busy_poll`. As in sysctl(8), the first separator decides:
    /// in a name with dots, a slash stands for a dot (`net.ipv4.conf.eth0/100.rp_filter`).
    pub fn path(&self) -> String {
        path(&self.name)
    }
}

fn path(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(first) if name[first..].starts_with('.') => {
            let swap = |c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_owned(),
    }
}

impl FromStr for Sysctl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected NAME = VALUE, such as net.core.busy_poll = 50";
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("'{}' has no value; {expected}", text.trim()))?;
        let (name, value) = (name.trim(), value.trim());
        let is_wrong = |part: &str| part.is_empty() || part == "." || part == "..";
        let is_odd = |c: char| c.is_whitespace() || c.is_control();
        if name.contains(is_odd) || path(name).split('/').any(is_wrong) || !path(name).contains('/') {
            return Err(format!("'{name}' is not the name of a kernel setting; {expected}"));
        }
        if value.is_empty() || value.contains(char::is_control) {
            return Err(format!("{name} has no value of one line; {expected}"));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

/// Kernel settings, in the order in which they are written. Empty if the host stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sysctls(pub Vec<Sysctl>);

impl FromStr for Sysctls {
    type Err = String;

    /// Parses settings separated by commas. A part that consists of numbers only, as in `8080,9000-9100`,
    /// belongs to the value before it.
    fn from_str(text: &str) -> Result<Self, String> {
        if ["", "none"].contains(&text.trim()) {
            return Ok(Self::default());
        }
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            let is_numbers = part.contains(|c: char| c.is_ascii_digit())
                && part.trim().chars().all(|c| c.is_ascii_digit() || c == '-');
            match parts.last_mut().filter(|_| is_numbers) {
                Some(before) => {
                    before.push(',');
                    before.push_str(part.trim());
                }
                None => parts.push(part.to_owned()),
            }
        }
        let all = parts.iter().map(|part| part.parse()).collect::<Result<Vec<Sysctl>, _>>()?;
        for (place, one) in all.iter().enumerate() {
            if all[..place].iter().any(|other| other.path() == one.path()) {
                return Err(format!("{} has two values; expected one value for each name", one.name));
            }
        }
        Ok(Self(all))
    }
}

impl fmt::Display for Sysctls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let all: Vec<String> = self.0.iter().map(Sysctl::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(String, String)>, String> {
        let all: Sysctls = text.parse()?;
        assert_eq!(all.to_string().parse(), Ok(all.clone()), "{text}: its text parses to the same settings");
        Ok(all.0.iter().map(|one| (one.path(), one.value.clone())).collect())
    }

    #[test]
    fn parses_one_or_several_settings() {
        let of = |pairs: &[(&str, &str)]| -> Result<Vec<(String, String)>, String> {
            Ok(pairs.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(parsed("none"), of(&[]));
        assert_eq!(parsed("  "), of(&[]));
        assert_eq!(parsed("net.core.busy_poll=50"), of(&[("net/core/busy_poll", "50")]));
        assert_eq!(
            parsed("net/core/busy_poll = 50 , vm.swappiness=10"),
            of(&[("net/core/busy_poll", "50"), ("vm/swappiness", "10")])
        );
        assert_eq!(
            parsed("net.ipv4.tcp_rmem = 4096 131072 6291456"),
            of(&[("net/ipv4/tcp_rmem", "4096 131072 6291456")])
        );
        assert_eq!(
            parsed("net.ipv4.ip_local_reserved_ports=8080,9000-9100, vm.swappiness=1"),
            of(&[("net/ipv4/ip_local_reserved_ports", "8080,9000-9100"), ("vm/swappiness", "1")])
        );
        // The value may contain further equal signs, and the name of a link may contain a dot.
        assert_eq!(parsed("kernel.core_pattern=a=b"), of(&[("kernel/core_pattern", "a=b")]));
        assert_eq!(
            parsed("net.ipv4.conf.eth0/100.rp_filter=0"),
            of(&[("net/ipv4/conf/eth0.100/rp_filter", "0")])
        );
        assert_eq!(
            parsed("net/ipv4/conf/eth0.100/rp_filter=0"),
            of(&[("net/ipv4/conf/eth0.100/rp_filter", "0")])
        );
    }

    #[test]
    fn errors_name_the_setting_and_the_notation() {
        for (text, says) in [
            ("net.core.busy_poll 50", "'net.core.busy_poll 50' has no value; expected NAME = VALUE"),
            ("net.core.busy_poll=50, vm.swappiness", "'vm.swappiness' has no value; expected NAME = VALUE"),
            ("vm.swappiness=", "vm.swappiness has no value of one line"),
            ("vm.swappiness=1\n2", "vm.swappiness has no value of one line"),
            ("=1", "'' is not the name of a kernel setting"),
            ("swappiness=1", "'swappiness' is not the name of a kernel setting"),
            ("vm..swappiness=1", "'vm..swappiness' is not the name"),
            ("../etc/passwd=1", "'../etc/passwd' is not the name"),
            ("net/../../../etc/passwd=1", "is not the name"),
            ("net.//.passwd=1", "is not the name"),
            ("/proc/sys/vm/swappiness=1", "'/proc/sys/vm/swappiness' is not the name"),
            ("vm.swap piness=1", "'vm.swap piness' is not the name"),
            ("vm.swappiness=1, vm/swappiness=2", "vm/swappiness has two values"),
            ("vm.swappiness=1,", "'' has no value"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn no_name_leaves_the_folder_of_settings() {
        use crate::random::Random;

        let mut random = Random::new(20);
        let pieces = [".", "/", "..", "a", "net", "a.b=1", " ", "=", "1", ","];
        let mut accepted = 0;
        for _ in 0..20_000 {
            let len = 1 + random.below(8);
            let text: String = (0..len).map(|_| pieces[random.below(pieces.len() as u64) as usize]).collect();
            let Ok(all) = text.parse::<Sysctls>() else { continue };
            for one in &all.0 {
                accepted += 1;
                let path = one.path();
                let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
                assert!(path.split('/').all(is_plain) && !path.contains('\0'), "{text:?}: {path:?}");
            }
        }
        assert!(accepted > 100, "{accepted} names were accepted");
    }
}
