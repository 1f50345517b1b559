//! An assembler for BPF programs (RFC 9669). The programs are few and short, so a dependency on a compiler
//! and its library would not be justified.

use std::os::fd::RawFd;

/// A register: 0 holds return values, 1 to 5 pass arguments and are clobbered by calls, 6 to 9 are preserved,
/// 10 is the frame pointer.
pub(crate) type Register = u64;

/// Kernel helper functions (enum bpf_func_id).
pub(crate) const FUNC_MAP_LOOKUP_ELEM: u32 = 1;
/// Redirects the packet to an entry of a map.
pub(crate) const FUNC_REDIRECT_MAP: u32 = 51;

/// Return value of an XDP program for packets to drop (enum xdp_action).
pub(crate) const XDP_DROP: u32 = 1;
/// Return value of an XDP program for packets that continue into the network stack.
pub(crate) const XDP_PASS: u32 = 2;

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Code {
    instructions: Vec<u64>,
    /// Indices of jumps with an unresolved target.
    open: Vec<usize>,
}

impl Code {
    /// The instructions for bpf(2).
    pub(crate) fn instructions(&self) -> &[u64] {
        &self.instructions
    }

    /// `to = value`.
    pub(crate) fn set(&mut self, to: Register, value: u32) -> &mut Self {
        self.push(0xb7, to, 0, 0, value)
    }

    /// `to = from`.
    pub(crate) fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(0xbf, to, from, 0, 0)
    }

    /// `to += value`.
    pub(crate) fn add(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(0x07, to, 0, 0, value as u32)
    }

    /// `to += from`.
    pub(crate) fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(0x0f, to, from, 0, 0)
    }

    /// `to = *(u32 *)(from + offset)`.
    pub(crate) fn load_word(&mut self, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(0x61, to, from, offset, 0)
    }

    /// `to = *(u64 *)(from + offset)`.
    pub(crate) fn load(&mut self, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(0x79, to, from, offset, 0)
    }

    /// `*(u64 *)(to + offset) = from`.
    pub(crate) fn store(&mut self, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(0x7b, to, from, offset, 0)
    }

    /// `to = &map`.
    pub(crate) fn map(&mut self, to: Register, map: RawFd) -> &mut Self {
        let pseudo_map_fd = 1;
        self.push(0x18, to, pseudo_map_fd, 0, map as u32).push(0, 0, 0, 0, 0)
    }

    /// Calls a kernel helper.
    pub(crate) fn call(&mut self, function: u32) -> &mut Self {
        self.push(0x85, 0, 0, 0, function)
    }

    /// `r0 = &map[key]`, or zero if there is no such entry. Overwrites the first four bytes of the stack with
    /// the key.
    pub(crate) fn look_up(&mut self, map: RawFd, key: Key) -> &mut Self {
        match key {
            Key::Number(number) => self.push(0x62, 10, 0, -4, number),
            Key::Register(register) => self.push(0x63, 10, register, -4, 0),
        };
        self.map(1, map).copy(2, 10).add(2, -4).call(FUNC_MAP_LOOKUP_ELEM)
    }

    /// Jumps to the next [`Code::here`] if the register equals `value`.
    pub(crate) fn skip_if(&mut self, register: Register, value: u32) -> &mut Self {
        self.jump(0x15, register, 0, value)
    }

    /// Jumps to the next [`Code::here`] if the register does not equal `value`.
    pub(crate) fn skip_unless(&mut self, register: Register, value: u32) -> &mut Self {
        self.jump(0x55, register, 0, value)
    }

    /// Jumps to the next [`Code::here`] if the registers differ.
    pub(crate) fn skip_unless_same(&mut self, one: Register, other: Register) -> &mut Self {
        self.jump(0x5d, one, other, 0)
    }

    /// The target of all jumps since the last call.
    pub(crate) fn here(&mut self) -> &mut Self {
        let target = self.instructions.len();
        for at in std::mem::take(&mut self.open) {
            let [code, registers, .., a, b, c, d] = self.instructions[at].to_ne_bytes();
            let [low, high] = ((target - at - 1) as i16).to_ne_bytes();
            self.instructions[at] = u64::from_ne_bytes([code, registers, low, high, a, b, c, d]);
        }
        self
    }

    /// `return r0`.
    pub(crate) fn exit(&mut self) -> &mut Self {
        self.push(0x95, 0, 0, 0, 0)
    }

    fn jump(&mut self, code: u8, to: Register, from: Register, value: u32) -> &mut Self {
        self.open.push(self.instructions.len());
        self.push(code, to, from, 0, value)
    }

    /// Appends an instruction (struct bpf_insn): code, registers, offset, immediate value.
    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, value: u32) -> &mut Self {
        // Encoded as a 64-bit integer in native byte order, which also determines the order of the bit
        // fields.
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        let [low, high] = offset.to_ne_bytes();
        let [a, b, c, d] = value.to_ne_bytes();
        self.instructions.push(u64::from_ne_bytes([code, registers as u8, low, high, a, b, c, d]));
        self
    }
}

/// The key of [`Code::look_up`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// A constant.
    Number(u32),
    /// The value of a register at run time.
    Register(Register),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_target_next_here() {
        let mut code = Code::default();
        code.skip_if(0, 0).set(1, 2).skip_unless_same(1, 2).here().set(0, 0).exit();
        let offset = |at: usize| {
            let [_, _, low, high, ..] = code.instructions()[at].to_ne_bytes();
            i16::from_ne_bytes([low, high])
        };
        assert_eq!([offset(0), offset(1), offset(2), offset(3)], [2, 0, 0, 0]);
        assert_eq!(code.instructions().len(), 5);
    }
}
