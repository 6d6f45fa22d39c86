//! Refunds and returns.

use std::time::Duration;

/// Customers may send goods back within this time.
pub const RETURN_WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

/// Kept from the refund of an opened package, in percent.
const RESTOCKING_PERCENT: u64 = 12;

#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    Damaged,
    WrongItem,
    ChangedMind { opened: bool },
}

pub struct Claim {
    pub order: String,
    pub cents: u64,
    pub reason: Reason,
    pub age: Duration,
}

#[derive(Debug, PartialEq)]
pub enum Refusal {
    TooLate,
    AlreadyPaidBack,
}

impl Claim {
    /// What is paid back, in cents. Damaged and wrong goods are paid back in full at any time.
    pub fn payout(&self) -> Result<u64, Refusal> {
        match &self.reason {
            Reason::Damaged | Reason::WrongItem => Ok(self.cents),
            Reason::ChangedMind { .. } if self.age > RETURN_WINDOW => Err(Refusal::TooLate),
            Reason::ChangedMind { opened: true } => Ok(self.cents - self.cents * RESTOCKING_PERCENT / 100),
            Reason::ChangedMind { opened: false } => Ok(self.cents),
        }
    }

    /// Claims above 500 euros are looked at by a person.
    pub fn needs_review(&self) -> bool {
        self.cents > 50_000
    }
}

/// A voucher is worth one tenth more than the money.
pub fn as_voucher(cents: u64) -> u64 {
    cents + cents / 10
}
