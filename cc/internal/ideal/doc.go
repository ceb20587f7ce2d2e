// Package ideal is the oracle that Pulser's figures and others hold protocols
// against: every flow has its max-min fair rate at once, whenever a flow begins or
// ends. Pulser describes it by reference only; the reading taken is in
// docs/engines/ideal.md.
//
// The engine itself knows nothing: a driver that knows the network computes the
// rates and tells it (cc.Directed).
package ideal
