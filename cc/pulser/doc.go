// Package pulser is Pulser's part in the host: DCTCP, interrupted while switches
// notice an incast. The first explicit incast notification (EIN) has the window saved and
// dropped to a few packets; when a window's worth of acknowledgements has come
// without one, it is what it was before.
//
// Source: H. Almasi et al., "Pulser: Fast Congestion Response Using Explicit Incast
// Notifications for Datacenter Networks", LANMAN 2019, section 3.2, equations 1 and 2.
// The part in the switch, section 3.1, is package fabric's.
//
// Units: windows in packets of the MTU.
//
// Departures: none of the rule. What it leaves open, with the reading taken, is in
// docs/engines/pulser.md.
package pulser
