// Package host is the part of a host that decides when its software runs: the
// core that a thread posting and polling shares with other work.
//
// # The model
//
// Other work comes in pieces at random (a Poisson process), each of which takes an
// exponential time of the core. It goes before the thread, whatever that does: it
// is interrupts, the kernel's threads and processes of a higher priority. Pieces
// that come while others are carried out wait for them, so the other work is the
// queue M/M/1: with a load of r and a mean of b a piece, the core is taken for a
// share r of the time, in spells of b/(1-r) on average; and a thread that wants to
// run at any time waits for r b/(1-r)^2 on average, which is the rest of the spell
// that it meets. What the thread does takes nothing from the other work.
//
// When the other work comes depends on the stream of random numbers alone, not on
// what the thread does or asks: two runs with the same stream have the same.
//
// # What it knows not
//
// It knows of no NIC and no verbs: others ask when the thread runs. The core is one,
// its frequency is constant, and no cache is cold after an interruption.
package host
