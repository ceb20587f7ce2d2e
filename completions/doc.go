// Package completions is the bookkeeping between the segments that a shim posts
// to a provider's queue pair and the requests that the application posted to the
// shim.
//
//   - A Table belongs to one queue pair. It knows the requests in order, which
//     segments of each are with the provider, and turns the completions of the
//     segments into one completion a request.
//   - A Queue is what the application polls: finished requests of many Tables in
//     the order in which they finished.
//   - A Clock turns the NIC's timestamp in a completion into host time, by
//     package calibration.
//   - Measure makes an RTT sample of a completed segment as TIMELY defines it
//     (SIGCOMM 2015, section 3.1).
//
// All of these are plain state: the caller passes the time, nothing allocates after
// construction, and nothing is safe for concurrent use.
package completions
