// Package simverbs is the verbs provider over the built-in model: package
// nicmodel's NICs on package fabric's network, in simulated time.
//
// There are two ways in. An application opens "sim:NETWORK/HOST" by verbs.Open
// and runs inside verbs.Run as an actor: time advances only while every actor
// waits in Poll, CompChannel.Wait, AsyncEvent or Sleep. A simulator makes a
// World around an engine of its own and drives devices from events, with
// Device.OnCompletion in place of waiting.
//
// Queue pairs are RC, UC and UD. CongestionFor is called for reliable connections
// only.
//
// # The actor rule
//
// One actor runs at a time. When it waits, the actor with the lowest number of
// those whose wait is over runs next; when there is none, the simulation takes its
// next event. So the same program gives the same run, to the picosecond. A Poll
// that finds nothing takes PollCost, so a polling loop makes progress. Everything
// else that an actor does takes no simulated time. While Run is active only its
// functions may use the devices of that network; a function that waits for anything
// else must do so within verbs.Blocking, and from then on the order in which the
// outside world answers is part of the run.
//
// Outside Run, and with a World that a simulator drives, one goroutine at a
// time uses a network.
package simverbs
