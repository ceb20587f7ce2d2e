// Package des is a discrete-event engine: a queue of events as plain values,
// delivered in an order that no partition of the model over workers can change,
// named random streams, and the core on which a host's thread runs.
//
// The order is (time, destination, source, number on that source). Each component
// that receives events is a destination. Whatever creates events (a link, a timer
// of a component) is a Source and numbers its events. Since neither depends on
// which events other components happen to create, a run in which the components are
// spread over several engines delivers the same events to each component in the
// same order as a run on one.
//
// Nothing here is safe for concurrent use: one engine belongs to one goroutine.
package des
