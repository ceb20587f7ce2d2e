// Package host is the part of a host that decides when its software runs: the
// core that a thread posting and polling shares with other work.
//
// # The model
//
// Other work comes in pieces at random (a Poisson process), each of which takes an
// exponential time of the core. It always preempts the thread: it represents
// interrupts, the kernel's threads and processes of a higher priority. Pieces that
// arrive while others run wait for them, so the other work is the queue M/M/1. With
// a load of r and a mean of b a piece, the core is busy with it for a share r of
// the time, in busy periods of b/(1-r) on average. A thread that becomes ready at a
// random time waits for r b/(1-r)^2 on average, the rest of the busy period that it
// meets. The thread's work takes no time from the other work.
//
// The arrival of other work depends on the stream of random numbers alone, not on
// what the thread does or asks: two runs with the same stream have the same other
// work.
//
// # What it knows not
//
// The package knows of no NIC and no verbs: callers ask it when the thread runs.
// There is one core, its frequency is constant, and no cache is cold after an
// interruption.
package host
