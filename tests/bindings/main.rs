//! The three wires and their port, over real sockets, with a service behind them that only says what it was asked.

mod additional;
mod authenticate;
mod codec;
mod grpc;
mod http_json;
mod jsonrpc;
mod parity;
mod port;
mod reach;
mod streams;
mod support;
