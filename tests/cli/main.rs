//! The client and the command line, against a peer that plays a script: what a real server does when all is well, and
//! what peers, proxies and networks do when it is not.

mod calls;
mod card;
mod commands;
mod follow;
mod others;
mod peer;
mod server;
mod starts;
