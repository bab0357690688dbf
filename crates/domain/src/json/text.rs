//! JSON strings with their escapes still in place.

/// A string between its quotes. Already validated: every escape in it is well formed.
#[derive(Clone, Copy, Debug)]
pub struct Text<'text> {
    pub(super) raw: &'text str,
    /// Whether there is a backslash in it.
    pub(super) escaped: bool,
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.chars().eq(other.chars())
    }
}

impl<'text> Text<'text> {
    /// The string itself, if it has no escapes.
    pub fn plain(self) -> Option<&'text str> {
        (!self.escaped).then_some(self.raw)
    }

    /// Whether it equals `wanted`.
    pub fn is(self, wanted: &str) -> bool {
        match self.plain() {
            Some(plain) => plain == wanted,
            None => self.chars().eq(wanted.chars()),
        }
    }

    /// Appends the string to `out`.
    pub fn append_to(self, out: &mut String) {
        match self.plain() {
            Some(plain) => out.push_str(plain),
            None => out.extend(self.chars()),
        }
    }

    /// The characters it stands for.
    pub fn chars(self) -> impl Iterator<Item = char> + use<'text> {
        let mut rest = self.raw.chars();
        std::iter::from_fn(move || match rest.next() {
            Some('\\') => escape(&mut rest),
            other => other,
        })
    }
}

/// The character of the escape whose backslash was read.
fn escape(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => unicode(rest)?,
        itself => itself,
    })
}

fn unicode(rest: &mut std::str::Chars<'_>) -> Option<char> {
    let first = unit(rest)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    // The second half of a surrogate pair: `\u` and four digits.
    let second = rest.nth(1).and_then(|_| unit(rest))?;
    pair(first, second)
}

fn unit(rest: &mut std::str::Chars<'_>) -> Option<u32> {
    let mut unit = 0;
    for _ in 0..4 {
        unit = unit << 4 | rest.next()?.to_digit(16)?;
    }
    Some(unit)
}

/// The character that a surrogate pair stands for.
pub(super) fn pair(first: u32, second: u32) -> Option<char> {
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    char::from_u32(0x10000 + ((first - 0xd800) << 10 | low))
}
