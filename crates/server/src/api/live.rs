//! Live subscriptions: what HTTP and gRPC share beyond what the broker does itself.

use std::sync::Arc;

use broker::{Live, LiveView};
use domain::Offset;
use domain::live::Query;
use domain::topic::LIVE_LABEL;

use super::{Api, paging};
use crate::status::Result;

/// Subscriptions that one call may name, at most.
pub(crate) const LIVE_BATCH_MAX: usize = 10_000;
/// Of a long call so many are done before others get a turn.
pub(crate) const LIVE_TURN: usize = 128;

/// Which live subscriptions to list.
#[derive(Debug, Default)]
pub(crate) struct ListLive {
    pub(crate) gateway: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) collection: Option<String>,
    pub(crate) page_size: i32,
    pub(crate) page_token: String,
}

impl Api {
    pub(crate) fn live(&self) -> &Arc<Live> {
        self.broker.live()
    }

    /// What to tell who registers while no topic can feed a subscription.
    pub(crate) fn live_warning(&self) -> Option<String> {
        if !self.live().topics().is_empty() {
            return None;
        }
        let how = match &self.live().options().topics {
            None => format!("give a topic the label {LIVE_LABEL}=true"),
            Some(_) => "create a topic that is listed in the live.topics setting".to_owned(),
        };
        Some(format!(
            "no topic is matched, so nothing will arrive: {how}, and publish with the attributes \
             tenant (default: the topic's project) and collection"
        ))
    }

    /// A page of live subscriptions, and the token of the next one.
    pub(crate) fn list_live(&self, list: ListLive) -> Result<(Vec<LiveView>, String)> {
        let after = paging::offset_of(&list.page_token)?.map(|after| u32::try_from(after.0));
        let query = Query {
            gateway: list.gateway,
            tenant: list.tenant,
            collection: list.collection,
            page_size: paging::page_size(list.page_size)?,
            // A place that cannot be is behind all that are.
            after: after.map(|after| after.unwrap_or(u32::MAX)),
        };
        let (views, next) = self.live().list(&query);
        let token = next.map(|next| paging::offset_token(Offset(next.into())));
        Ok((views, token.unwrap_or_default()))
    }
}
