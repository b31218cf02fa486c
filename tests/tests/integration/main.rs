//! Controller and agent against real API servers, one file per behaviour. Argo is played (`argosy_tests::lab::argo`); what
//! only a real Argo can show is in the tests of the fleet.

mod dispatch;
mod status;
