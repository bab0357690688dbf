use super::*;

#[test]
fn a_file_header_comes_back_and_any_flipped_bit_shows() {
    let header = FileHeader { sequence: 7, salt: u64::MAX - 5, first_group: 99, length: 1 << 26 };
    let block = header.encode();
    assert_eq!(FileHeader::decode(block[..].first_chunk().unwrap()), Ok(header));
    for at in (0..BLOCK).step_by(3) {
        let mut flipped = block.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(FileHeader::decode(flipped[..].first_chunk().unwrap()).is_err(), "byte {at}");
    }
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let header = FileHeader { sequence: 1, salt: 2, first_group: 3, length: 4096 };
    let mut block = header.encode();
    block[12] = 9;
    block[8..12].fill(0);
    let crc = crc32c::crc32c(&block);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    let decoded = FileHeader::decode(block[..].first_chunk().unwrap());
    assert_eq!(decoded, Err(HeaderFault::Format(9)));
}

fn group(salt: u64) -> Vec<u8> {
    let mut group = vec![0; GROUP_HEADER];
    group.extend_from_slice(b"frames");
    group.resize(BLOCK, 0);
    finish_group(&mut group, 12, 6, salt);
    group
}

fn is_valid(group: &[u8], salt: u64) -> bool {
    GroupHeader::decode(group, salt).is_some_and(|header| header.holds(group, salt))
}

#[test]
fn a_group_is_valid_only_under_its_salt() {
    let salt = 0x0123_4567_89ab_cdef;
    let group = group(salt);
    let header = GroupHeader::decode(&group, salt).unwrap();
    assert_eq!((header.number, header.body_length, header.group_bytes()), (12, 6, BLOCK));
    assert!(is_valid(&group, salt));
    assert!(!is_valid(&group, salt ^ 1));
    assert!(!is_valid(&group, salt ^ (1 << 40)));
}

#[test]
fn any_flipped_bit_of_a_group_shows_even_in_the_zeros_behind_it() {
    let group = group(5);
    for at in 0..BLOCK {
        let mut flipped = group.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(!is_valid(&flipped, 5), "byte {at}");
    }
}

proptest::proptest! {
    #[test]
    fn rubbish_never_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = GroupHeader::decode(&bytes, 0);
    }
}
