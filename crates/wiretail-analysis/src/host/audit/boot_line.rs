//! The kernel command line ("boot line"): the settings requested at boot.

use wiretail_schema::units::cores::CoreSet;

/// Words of a boot line, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootLine(Vec<String>);

impl BootLine {
    /// Splits a boot line at blanks, except at blanks within quotes, as the kernel does. Words after `--`
    /// belong to init and are dropped.
    pub fn parse(line: &str) -> Self {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for letter in line.chars() {
            match letter {
                '"' => quoted = !quoted,
                _ if letter.is_whitespace() && !quoted => words.push(String::new()),
                _ => words[..].last_mut().expect("one").push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.truncate(end);
        Self(words)
    }

    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Value of a word `name=value`, or "" for a word without a value. If a name occurs several times, the
    /// last occurrence is used, as for most kernel parameters.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find_map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            // The kernel treats `-` and `_` in names alike.
            same(key, name).then_some(value)
        })
    }

    /// The complete word, for example "isolcpus=1-3".
    pub fn word(&self, name: &str) -> Option<&str> {
        let is = |word: &&String| same(word.split_once('=').map_or(word.as_str(), |(key, _)| key), name);
        self.0.iter().rev().find(is).map(String::as_str)
    }

    /// Core list of a word, without the flags before it, as in `isolcpus=managed_irq,domain,1-3`. `None` if
    /// the word is absent.
    ///
    /// # Errors
    ///
    /// Returns an error if the value has no valid core list.
    pub fn cores(&self, name: &str) -> Option<Result<CoreSet, String>> {
        let value = self.value(name)?;
        let list = value
            .split(',')
            .skip_while(|part| !part.starts_with(|letter: char| letter.is_ascii_digit()))
            .collect::<Vec<_>>()
            .join(",");
        Some(match list.is_empty() {
            true => Err(format!("{name}={value} names no cores")),
            false => CoreSet::parse(&list),
        })
    }

    /// Flags that precede the core list, as in `isolcpus=managed_irq,domain,1-3`.
    pub fn flags(&self, name: &str) -> Vec<&str> {
        let value = self.value(name).unwrap_or("");
        let parts =
            value.split(',').take_while(|part| !part.starts_with(|letter: char| letter.is_ascii_digit()));
        parts.filter(|part| !part.is_empty()).collect()
    }
}

fn same(a: &str, b: &str) -> bool {
    let letter = |letter: char| if letter == '-' { '_' } else { letter };
    a.chars().map(letter).eq(b.chars().map(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_values_and_cores() {
        let line = BootLine::parse(
            "quiet isolcpus=managed_irq,domain,1-2,4 dyndbg=\"a b\" idle=poll idle=halt rcu-nocb-poll -- x=1",
        );
        assert_eq!(line.words().len(), 6);
        assert_eq!(
            (line.value("quiet"), line.value("idle"), line.value("x")),
            (Some(""), Some("halt"), None)
        );
        assert_eq!(
            (line.value("rcu_nocb_poll"), line.word("isolcpus")),
            (Some(""), Some("isolcpus=managed_irq,domain,1-2,4"))
        );
        assert_eq!(line.cores("isolcpus"), Some(CoreSet::parse("1-2,4")));
        assert_eq!(line.flags("isolcpus"), ["managed_irq", "domain"]);
        assert_eq!((line.cores("nohz_full"), line.value("dyndbg")), (None, Some("a b")));
        let wrong = BootLine::parse("isolcpus=domain nohz_full=3-1");
        assert!(wrong.cores("isolcpus").unwrap().is_err() && wrong.cores("nohz_full").unwrap().is_err());
    }
}
