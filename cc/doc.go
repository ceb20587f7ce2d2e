// Package cc is the contract between rate engines and whatever drives them: the
// host shim (verbs/paced), the engine slot of a NIC (nicmodel), or an offline
// replay. The first two hold theirs by a Driver. The engines are packages below
// this one; each registers a Scheme.
//
// An engine is a plain state machine for one flow. It takes an acknowledgement and
// answers with a pacing rate and a window. It reads no clock, starts no goroutine,
// draws no random number and allocates nothing after it is made. It is not safe for
// concurrent use.
//
// Schemes that need more than acknowledgements (credits from a receiver, a say
// in the choice of path, notice of a coming circuit) declare that as a further
// interface beside Engine, which a driver looks for once, when it makes the
// engine; Engine itself stays as small as it is.
package cc
