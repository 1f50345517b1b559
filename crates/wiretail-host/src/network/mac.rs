//! Ethernet addresses in the usual notation: `02:00:00:00:00:01`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Returns the testbed address with this number: locally administered, unicast.
    pub fn local(number: u32) -> Self {
        let [a, b, c, d] = number.to_be_bytes();
        MacAddress([2, 0, a, b, c, d])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is not an Ethernet address; expected one like 02:00:00:00:00:01");
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(fault)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| fault())?;
        }
        if parts.next().is_some() { Err(fault()) } else { Ok(MacAddress(bytes)) }
    }
}

impl TryFrom<String> for MacAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> String {
        mac.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_parses_addresses() {
        let mac = MacAddress::local(0x0102_0a0b);
        assert_eq!(mac.to_string(), "02:00:01:02:0a:0b");
        assert_eq!("02:00:01:02:0a:0b".parse(), Ok(mac));
        for wrong in ["", "02:00:01:02:0a", "02:00:01:02:0a:0b:0c", "2:0:1:2:a:b", "02:00:01:02:0a:0g"] {
            assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
        }
    }
}
