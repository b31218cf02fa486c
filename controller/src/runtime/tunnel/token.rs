//! The secret by which the controller knows an agent that dials.
//!
//! An agent has one token for its whole life and publishes the digest of it in its Lease
//! (annotation `argosy.dev/tunnel`). Only the writers of the mailbox's Lease can do that, and they
//! are the agent already, so the tunnel adds no trust and no write. A digest tells nothing about its
//! token. Not here: the Lease.

use std::fmt::{self, Display, Formatter, Write as _};

use rustls::crypto::aws_lc_rs::default_provider;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// Length of a token and of a digest, in bytes. The text has twice as many digits.
const LENGTH: usize = 32;

/// The machine has no random numbers.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("cannot read random bytes for the token of the tunnel")]
pub struct NoRandomness;

/// A token of random bytes. It has no `Debug`, because it is secret.
#[derive(Clone)]
pub struct Token([u8; LENGTH]);

impl Token {
    /// Creates a token that nobody else knows.
    ///
    /// # Errors
    ///
    /// The machine has no random numbers.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = [0; LENGTH];
        let random = default_provider().secure_random;
        random.fill(&mut bytes).map_err(|_| NoRandomness)?;
        Ok(Self(bytes))
    }

    /// Parses the text of a token: 64 lowercase hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text).map(Self)
    }

    /// The text of the token: 64 lowercase hexadecimal digits.
    pub fn reveal(&self) -> String {
        written(&self.0)
    }

    /// The digest that the agent publishes.
    pub fn digest(&self) -> Digest {
        Digest(Sha256::digest(self.0).into())
    }
}

/// The SHA-256 of a token. Its text has 64 lowercase hexadecimal digits. It is public, so a
/// comparison of two digests may take any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest([u8; LENGTH]);

impl Digest {
    /// Parses the text of a digest.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text).map(Self)
    }

    /// True if this is the digest of `token`. The time does not depend on the bytes that differ.
    pub fn is_of(&self, token: &Token) -> bool {
        self.0.as_slice().ct_eq(&token.digest().0).into()
    }
}

impl Display for Digest {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&written(&self.0))
    }
}

fn written(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * LENGTH);
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn parse(text: &str) -> Option<[u8; LENGTH]> {
    let digit = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != LENGTH || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; LENGTH];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_digest_and_no_other_token_is() {
        let (token, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        let digest = Digest::parse(&token.digest().to_string()).unwrap();
        assert!(digest.is_of(&token));
        assert!(!digest.is_of(&other));
        let sent = Token::parse(&token.reveal()).unwrap();
        assert!(digest.is_of(&sent));
    }

    #[test]
    fn a_digest_is_the_sha_256_of_the_bytes() {
        let token = Token::parse(&"00".repeat(LENGTH)).unwrap();
        // head -c 32 /dev/zero | sha256sum
        let digest = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";
        assert_eq!(token.digest().to_string(), digest);
    }

    #[test]
    fn only_64_lowercase_digits_are_a_token() {
        for bad in [
            "",
            "0",
            &"0".repeat(63),
            &"0".repeat(65),
            &"0".repeat(66),
            &"A".repeat(64),
            &"é".repeat(32),
        ] {
            assert!(Token::parse(bad).is_none(), "{bad} was taken");
        }
    }
}
