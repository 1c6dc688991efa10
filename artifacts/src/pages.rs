//! Checks the headers of Parquet pages before a page is read. The reader allocates as many bytes as a header declares,
//! and a header can declare 2 GiB for a page of ten bytes.
//!
//! A header is a Thrift struct in the compact protocol
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>). Its field 2 is the page's
//! uncompressed size, its field 3 the size in the file.

use parquet::basic::Compression;

/// The most bytes that one byte of a compressed page can expand to: a Snappy copy takes three bytes and produces at
/// most 64.
const SNAPPY: u64 = 22;

/// The extra size allowed for any page, however small: the bytes before the first copy.
const BESIDE: u64 = 64;

/// The greatest nesting depth of structs in a header; three is usual.
const DEPTH: u32 = 16;

/// Checks the headers of all pages of a column's chunk.
///
/// # Errors
/// If a header cannot be read, or a page declares more bytes than it can expand to.
pub(crate) fn check(mut chunk: &[u8], compression: Compression) -> Result<(), &'static str> {
    let factor = match compression {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => SNAPPY,
        // The reader reports any other codec as an error.
        _ => return Ok(()),
    };
    while !chunk.is_empty() {
        let mut header = Header { rest: chunk };
        let (full, kept) = header.sizes().ok_or("a page's header cannot be read")?;
        let size = |n: i64| u64::try_from(n).map_err(|_| "the size of a page is negative");
        let (full, kept) = (size(full)?, size(kept)?);
        if full > kept.saturating_mul(factor).saturating_add(BESIDE) {
            return Err("a page declares more bytes than can come out of it");
        }
        let kept = usize::try_from(kept).ok();
        chunk = kept
            .and_then(|kept| header.rest.get(kept..))
            .ok_or("a page does not lie within its column")?;
    }
    Ok(())
}

/// The field type that ends a struct.
const STOP: u8 = 0;

struct Header<'a> {
    rest: &'a [u8],
}

impl Header<'_> {
    /// Reads a header to its end; returns fields 2 and 3.
    fn sizes(&mut self) -> Option<(i64, i64)> {
        let (mut full, mut kept) = (None, None);
        let mut id = 0;
        loop {
            let (kind, next) = self.field(id)?;
            if kind == STOP {
                return full.zip(kept);
            }
            id = next;
            match (id, kind) {
                (2, 5) => full = Some(self.number()?),
                (3, 5) => kept = Some(self.number()?),
                _ => self.skip(kind, DEPTH)?,
            }
        }
    }

    /// Reads the head of a field, its type and number. The type is [`STOP`] at the end of the struct.
    fn field(&mut self, last: i64) -> Option<(u8, i64)> {
        let byte = self.byte()?;
        let (delta, kind) = (byte >> 4, byte & 0x0f);
        Some(match (kind, delta) {
            (STOP, _) => (STOP, last),
            (_, 0) => (kind, self.number()?),
            _ => (kind, last.checked_add(i64::from(delta))?),
        })
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => self.rest = self.rest.get(8..)?,
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.rest = self.rest.get(length..)?;
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    few => u64::from(few),
                };
                for _ in 0..count {
                    self.element(head & 0x0f, depth)?;
                }
            }
            12 => {
                let mut id = 0;
                loop {
                    let (kind, next) = self.field(id)?;
                    if kind == STOP {
                        break;
                    }
                    id = next;
                    self.skip(kind, depth)?;
                }
            }
            // Page headers contain no maps.
            _ => return None,
        }
        Some(())
    }

    /// Skips a list element; a Boolean takes one byte there. Each element takes at least one byte, so no valid count
    /// exceeds the bytes left.
    fn element(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            1 | 2 => self.byte().map(drop),
            kind => self.skip(kind, depth),
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a zigzag-encoded number.
    fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data page: type 0, the two sizes, and the header of a data page with four numbers.
    fn page(full: i64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, value: i64| {
            let mut rest = ((value << 1) ^ (value >> 63)) as u64;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        };
        for value in [0, full, payload.len() as i64] {
            bytes.push(0x15);
            number(&mut bytes, value);
        }
        // Field 5, a struct of four numbers; then the end of both.
        bytes.push(0x2c);
        for value in [10, 0, 3, 3] {
            bytes.push(0x15);
            number(&mut bytes, value);
        }
        bytes.extend([0, 0]);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn pages_that_can_be_pass_and_those_that_cannot_do_not() {
        let two = [page(100, &[0; 10]), page(20, &[0; 20])].concat();
        assert_eq!(check(&two, Compression::SNAPPY), Ok(()));
        for full in [i64::from(i32::MAX), 10 * 22 + 65, -1] {
            let bad = [page(100, &[0; 10]), page(full, &[0; 10])].concat();
            assert!(check(&bad, Compression::SNAPPY).is_err(), "{full}");
        }
        assert!(check(&page(100, &[0; 10]), Compression::UNCOMPRESSED).is_err());
    }

    #[test]
    fn a_cut_header_and_a_cut_page_are_errors() {
        let whole = page(100, &[0; 10]);
        for end in 1..whole.len() {
            assert!(check(&whole[..end], Compression::SNAPPY).is_err(), "{end}");
        }
    }
}
