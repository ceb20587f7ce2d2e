// Package core is the shim of package paced without anything around it: it cuts
// requests into segments, paces them, bounds what is outstanding, matches
// completions, and steers the pace by them. It is a state machine: each call passes
// the time, as an instant of Core.Now. It reads no clock, takes no lock, calls no provider and wakes nobody.
// One goroutine at a time uses a Core and all of its queue pairs: the one that
// holds the driver's lock.
//
// A driver goes round in this order:
//
//	q.Check, q.Accept, c.Offer   what the application posts
//	c.Due, c.Next, c.Posted      segments that are due go to the provider
//	q.Complete, c.Measure        the provider completed one
//	q.Finish, c.File             requests that it finished; what it made room for
//
// Nothing in this loop allocates, except that Accept doubles the memory of a queue pair
// when it holds more requests than ever before.
package core
