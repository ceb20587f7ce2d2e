// Package progress is a thread that makes the progress of a paced.Shim, for a
// program that calls the Shim too rarely. Such a program computes between its
// calls, sleeps on a file descriptor of its own, or waits for something other than
// the device.
//
//	stop, err := progress.Start(shim)
//	...
//	err = stop()
//
// The thread sleeps in the kernel while the shim has nothing to do, until a post, a
// poll or a change of state gives it something. While segments wait for their pace,
// it sleeps until shortly before the next is due and spins for the rest, since a
// kernel's sleep ends late and a segment that leaves more than 10 us late costs its
// flow some of its rate. While segments are with the NIC it polls for completions
// at intervals. Options sets these times.
//
// A program that polls or waits all the time needs none of this, and pays for a
// thread that competes for the shim's lock if it has it.
package progress
