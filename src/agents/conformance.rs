//! The scripted agent that conformance kits and our own tests talk to.
