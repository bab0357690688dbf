//! Scans a text value by value.

use super::text::pair;
use super::{NESTING_MAX, NotJson, Number, Text, Value};

/// A position in a text.
#[derive(Clone, Debug)]
struct Scanner<'text> {
    text: &'text str,
    at: usize,
}

/// Reads one value that spans the whole text.
pub(super) fn whole(text: &str) -> Result<Value<'_>, NotJson> {
    let mut scanner = Scanner { text, at: 0 };
    let value = scanner.value()?;
    scanner.end()?;
    Ok(value)
}

/// The members of the object at the start of the text, if there is one.
pub(super) fn object(text: &str) -> Option<Members<'_>> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.take_next(b'{').then_some(Members { scanner, begun: false, ended: false })
}

/// The elements of a list that was already validated.
pub(super) fn list(text: &str) -> Elements<'_> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.take_next(b'[');
    scanner.skip_space();
    Elements { ended: scanner.peek() == Some(b']'), scanner }
}

/// The members of an object, in text order. The last item is an error if the text is not JSON, even
/// if the fault comes after the object.
#[derive(Clone, Debug)]
pub struct Members<'text> {
    scanner: Scanner<'text>,
    begun: bool,
    ended: bool,
}

impl<'text> Iterator for Members<'text> {
    type Item = Result<(Text<'text>, Value<'text>), NotJson>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let member = self.member();
        self.ended = !matches!(member, Ok(Some(_)));
        member.transpose()
    }
}

impl<'text> Members<'text> {
    fn member(&mut self) -> Result<Option<(Text<'text>, Value<'text>)>, NotJson> {
        if self.scanner.take_next(b'}') {
            return self.scanner.end().map(|()| None);
        }
        if self.begun {
            self.scanner.expect(b',')?;
        }
        self.begun = true;
        let key = self.scanner.key()?;
        Ok(Some((key, self.scanner.value_within(1)?)))
    }
}

/// The elements of a list.
#[derive(Clone, Debug)]
pub struct Elements<'text> {
    scanner: Scanner<'text>,
    ended: bool,
}

impl Elements<'_> {
    pub(super) fn none() -> Self {
        Self { scanner: Scanner { text: "", at: 0 }, ended: true }
    }
}

impl<'text> Iterator for Elements<'text> {
    type Item = Value<'text>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let value = self.scanner.value().ok();
        self.ended = value.is_none() || !self.scanner.take_next(b',');
        value
    }
}

impl<'text> Scanner<'text> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, mark: u8) -> bool {
        let found = self.peek() == Some(mark);
        self.at += usize::from(found);
        found
    }

    fn take_next(&mut self, mark: u8) -> bool {
        self.skip_space();
        self.take(mark)
    }

    fn expect(&mut self, mark: u8) -> Result<(), NotJson> {
        self.take_next(mark).then_some(()).ok_or(NotJson)
    }

    fn end(&mut self) -> Result<(), NotJson> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(NotJson) }
    }

    fn since(&self, start: usize) -> &'text str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn key(&mut self) -> Result<Text<'text>, NotJson> {
        self.expect(b'"')?;
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    fn value(&mut self) -> Result<Value<'text>, NotJson> {
        self.value_within(0)
    }

    /// Reads a scalar, or skips a list or an object, at this nesting level.
    fn value_within(&mut self, levels: u32) -> Result<Value<'text>, NotJson> {
        self.skip_space();
        let start = self.at;
        match self.peek() {
            Some(b'{') => self.container(levels).map(|()| Value::Object(self.since(start))),
            Some(b'[') => self.container(levels).map(|()| Value::List(self.since(start))),
            _ => self.scalar(),
        }
    }

    fn scalar(&mut self) -> Result<Value<'text>, NotJson> {
        match self.peek().ok_or(NotJson)? {
            b'"' => {
                self.at += 1;
                self.string().map(Value::Text)
            }
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => {
                let start = self.at;
                self.number()?;
                Ok(Value::Number(Number::read(self.since(start))))
            }
        }
    }

    fn word(&mut self, word: &str, value: Value<'text>) -> Result<Value<'text>, NotJson> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(NotJson);
        }
        self.at += word.len();
        Ok(value)
    }

    /// Skips a list or an object with all its contents. One bit per open level says whether it is
    /// an object.
    fn container(&mut self, levels: u32) -> Result<(), NotJson> {
        let (mut objects, mut depth) = (0_u128, 0_u32);
        loop {
            self.skip_space();
            let opening = self.peek().filter(|mark| matches!(mark, b'{' | b'['));
            if let Some(mark) = opening {
                if depth + levels == NESTING_MAX {
                    return Err(NotJson);
                }
                self.at += 1;
                depth += 1;
                objects = objects << 1 | u128::from(mark == b'{');
                if !self.take_next(closing(objects)) {
                    self.key_if(objects)?;
                    continue;
                }
                (objects, depth) = (objects >> 1, depth - 1);
            } else {
                self.step_over_scalar()?;
            }
            // A value has ended, and perhaps some of those around it.
            while depth > 0 && self.take_next(closing(objects)) {
                (objects, depth) = (objects >> 1, depth - 1);
            }
            if depth == 0 {
                return Ok(());
            }
            self.expect(b',')?;
            self.key_if(objects)?;
        }
    }

    fn key_if(&mut self, objects: u128) -> Result<(), NotJson> {
        if objects & 1 == 1 { self.key().map(|_| ()) } else { Ok(()) }
    }

    /// Like `scalar`, but does not compute the value of a number.
    fn step_over_scalar(&mut self) -> Result<(), NotJson> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.scalar().map(|_| ()),
        }
    }

    fn number(&mut self) -> Result<(), NotJson> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(NotJson) }
    }

    /// Reads what follows an opening quote.
    fn string(&mut self) -> Result<Text<'text>, NotJson> {
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '));
            self.at += plain.ok_or(NotJson)?;
            match self.peek() {
                Some(b'"') => {
                    let raw = self.since(start);
                    self.at += 1;
                    return Ok(Text { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                _ => return Err(NotJson),
            }
        }
    }

    /// Skips what follows a backslash.
    fn escape(&mut self) -> Result<(), NotJson> {
        let kind = self.peek().ok_or(NotJson)?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => {
                let first = self.unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first).map(|_| ()).ok_or(NotJson);
                }
                if !(self.take(b'\\') && self.take(b'u')) {
                    return Err(NotJson);
                }
                let second = self.unit()?;
                pair(first, second).map(|_| ()).ok_or(NotJson)
            }
            _ => Err(NotJson),
        }
    }

    fn unit(&mut self) -> Result<u32, NotJson> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(NotJson)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotJson);
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| NotJson)
    }
}

/// The bracket that ends the innermost level.
fn closing(objects: u128) -> u8 {
    if objects & 1 == 1 { b'}' } else { b']' }
}
