// Package cwnd is what engines make of the window that their law arrives at: its
// bounds, the control that a sender gets for it, and what losses do to it. Bytes is
// the window of HPCC, PowerTCP and theta-PowerTCP, with a rate that spreads it over
// the base round trip; Packets is that of Swift and Poseidon, paced below one packet.
//
// Both are embedded in an engine's state, and are the engine's methods but for OnAck.
// They know no law: an engine says what the window is, and when.
package cwnd
