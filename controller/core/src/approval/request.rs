//! A CertificateSigningRequest, as far as a decision needs it. Not here: how it is read.

use argosy_api::issued::IssuedCertificate;
use jiff::Timestamp;

use crate::ClusterName;

/// A CertificateSigningRequest for a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// When it was created.
    pub created: Timestamp,
    /// Who created it, as the API server knows.
    pub user: String,
    /// By what that user was known to the API server: values of [`argosy_api::names::CREDENTIAL_ID`].
    pub credentials: Vec<String>,
    /// What the certificate is to be good for.
    pub usages: Vec<String>,
    /// How many seconds it is to last, if the request says so.
    pub expiration_seconds: Option<i32>,
    /// Whom it asks a certificate for; `None` where that is no agent.
    pub subject: Option<Subject>,
    /// What has become of it.
    pub state: State,
}

/// The agent that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its cluster, as the common name has it. There need not be one.
    pub cluster: ClusterName,
    /// Why the request asks for something else than the identity of that agent, if it does.
    pub flaw: Option<String>,
}

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody has decided.
    Undecided,
    /// Approved, and not signed yet.
    Approved,
    /// Signed.
    Issued(IssuedCertificate),
    /// Denied, or the signer could not sign it, or nobody can read what it has signed.
    Over,
}
