//! Any text as a page token of a list.

use super::paging;

/// As the token of a page by name, by offset, and of lanes.
pub fn page_token(text: &str) -> String {
    let name = paging::after(text, |_| true);
    if let Ok(Some(name)) = &name {
        let again = paging::after(&paging::token(Some(name.clone())), |_| true);
        assert_eq!(again.as_ref(), Ok(&Some(name.clone())));
    }
    let offset = paging::offset_of(text);
    if let Ok(Some(offset)) = offset {
        assert_eq!(paging::offset_of(&paging::offset_token(offset)), Ok(Some(offset)));
    }
    let lane = super::lanes::check_token(text);
    format!("{} {} {lane}", name.is_ok(), offset.is_ok())
}
