// Package plane is a switch as a plain state machine: it is told the time and given
// frames, decides where they go, queues them at shaped ports, and hands them out
// when their last bit has left. It opens no socket and reads no clock.
//
// A port serves its queue at its rate from the instants that frames came at, not
// from those at which it was called: a driver that is late makes the queue no longer.
package plane
