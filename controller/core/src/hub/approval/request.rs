//! The fields of a CertificateSigningRequest that a decision needs. Not here: reading them.

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
    /// Its resource version.
    pub resource_version: String,
    /// The time at which it was created.
    pub created: Timestamp,
    /// The user that created it, according to the API server.
    pub user: String,
    /// The credentials with which that user authenticated: values of
    /// [`argosy_api::names::CREDENTIAL_ID`].
    pub credentials: Vec<String>,
    /// The usages that the certificate is to have.
    pub usages: Vec<String>,
    /// The number of seconds that the certificate is to be valid, if the request has one.
    pub expiration_seconds: Option<i32>,
    /// The agent that the certificate is for; `None` if it is not for an agent.
    pub subject: Option<DistinguishedName>,
    /// The state of the request.
    pub state: State,
}

/// The agent that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinguishedName {
    /// Its cluster, as in the common name. There need not be one.
    pub cluster: ClusterName,
    /// The reason why the request asks for something else than the identity of that agent, if it
    /// does.
    pub problem: Option<String>,
}

/// The state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Neither approved nor denied.
    Undecided,
    /// Approved, and not signed yet.
    Approved,
    /// Signed.
    Issued(IssuedCertificate),
    /// Denied, not signed because the signer failed, or signed with a certificate that cannot be
    /// read.
    Over,
}
