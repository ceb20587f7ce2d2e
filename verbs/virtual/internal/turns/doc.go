// Package turns runs unmodified programs in simulated time: one thread of all of them at
// a time, in a fixed order, so that two runs are equal.
//
// A thread runs until a waiting point: a call of its preloaded library
// (verbs/virtual/preload) to the Scheduler. There it says until when, or for what, it
// waits. Of the threads whose wait is over the one with the lowest number runs next; when
// there is none, the simulation takes its next event. Between two waiting points no
// simulated time passes. Waiting points are
//
//   - a read of a clock (ClockCost) and a look at an empty completion queue
//     (Config.PollCost), which take their cost;
//   - sleeps, and calls that wait for a descriptor, a child, a thread or a lock: until that
//     is there, or the call's timeout;
//   - a loop that reads the same memory again and again: until a device writes into the
//     process's memory, or another thread of the process has run.
//
// So that programs which read clocks in loops get on, the library lets the costs of reads and
// empty polls pass by itself while nothing can happen: up to the horizon that comes with
// each turn, unless the program has rung a doorbell.
//
// Numbers of processes that programs see, and what getrandom gives them, are the Scheduler's:
// fixed by the order in which processes start.
package turns
