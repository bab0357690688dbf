//! Quoted strings and their escapes.
//!
//! Google's documentation allows Unicode, hexadecimal and octal escapes and asks that quotes,
//! backslashes and non-printing characters be escaped, and says no more. So we accept:
//!
//! ```text
//! \" \' \\               the character itself
//! \a \b \f \n \r \t \v   the usual control characters
//! \uXXXX \UXXXXXXXX      a character by its number, four or eight hexadecimal digits
//! \xXX \O \OO \OOO       an ASCII character by its number, hexadecimal or octal
//! ```

use super::parse::{Cursor, Fault};

/// Parses the next string and returns its value.
pub(super) fn string(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    if cursor.rest.starts_with('"') {
        return quoted(cursor);
    }
    Err(cursor.fault("expected a string in double quotes"))
}

/// Parses the string that starts with the next character, which is also its closing quote.
pub(super) fn quoted(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let opening = cursor.rest;
    let quote = cursor.next_char();
    let mut value = String::new();
    loop {
        let here = cursor.rest;
        let next = cursor.next_char();
        if next.is_some() && next == quote {
            return Ok(value);
        }
        match next {
            Some('\\') => value.push(escaped(cursor, here)?),
            Some(c) if c.is_control() => {
                let problem = format!("a control character is written as an escape: {}", escape(c));
                return Err(cursor.fault_at(here, problem));
            }
            Some(c) => value.push(c),
            None => return Err(cursor.fault_at(opening, "this string has no closing quote")),
        }
    }
}

/// The escape for any control character.
fn escape(control: char) -> String {
    format!("\\u{:04x}", u32::from(control))
}

/// The character that an escape stands for; `start` is at its backslash, the cursor just past it.
fn escaped(cursor: &mut Cursor<'_>, start: &str) -> Result<char, Fault> {
    Ok(match cursor.next_char() {
        Some(c @ ('"' | '\'' | '\\')) => c,
        Some('a') => '\u{7}',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\u{b}',
        Some('u') => character(hexadecimal(cursor, 4)?, cursor, start)?,
        Some('U') => character(hexadecimal(cursor, 8)?, cursor, start)?,
        Some('x' | 'X') => ascii(hexadecimal(cursor, 2)?, cursor, start)?,
        Some(first @ '0'..='7') => ascii(octal(cursor, first), cursor, start)?,
        _ => {
            let problem = r#"not an escape, there are \" \\ \n \r \t \uXXXX \UXXXXXXXX and \xXX"#;
            return Err(cursor.fault_at(start, problem));
        }
    })
}

fn character(number: u32, cursor: &Cursor<'_>, start: &str) -> Result<char, Fault> {
    char::from_u32(number).ok_or_else(|| {
        cursor.fault_at(
            start,
            "there is no character with this \
        number",
        )
    })
}

/// Above ASCII, Google does not document whether such a number is a byte or a character. Refusing
/// it is better than waiting for a message that never comes.
fn ascii(number: u32, cursor: &Cursor<'_>, start: &str) -> Result<char, Fault> {
    match char::from_u32(number) {
        Some(c) if c.is_ascii() => Ok(c),
        _ => Err(cursor.fault_at(start, r"above \x7f, write the character itself or \uXXXX")),
    }
}

/// Reads exactly this many digits, at most eight.
fn hexadecimal(cursor: &mut Cursor<'_>, digits: usize) -> Result<u32, Fault> {
    let mut number = 0;
    for _ in 0..digits {
        let digit = take_digit(cursor, 16)
            .ok_or_else(|| cursor.fault(format!("expected {digits} hexadecimal digits")))?;
        number = number << 4 | digit;
    }
    Ok(number)
}

/// Reads up to two more digits after the first.
fn octal(cursor: &mut Cursor<'_>, first: char) -> u32 {
    let mut number = first.to_digit(8).unwrap_or_default();
    for _ in 0..2 {
        let Some(digit) = take_digit(cursor, 8) else { break };
        number = number << 3 | digit;
    }
    number
}

fn take_digit(cursor: &mut Cursor<'_>, radix: u32) -> Option<u32> {
    let digit = cursor.rest.chars().next()?.to_digit(radix)?;
    cursor.next_char();
    Some(digit)
}
