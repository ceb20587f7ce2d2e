// Package perf measures bandwidth and latency through the verbs API as the
// programs of perftest do: write_bw, read_bw, send_bw, atomic_bw and the same
// with _lat, on the devices of any provider.
//
// Each run has two ends. Client and Server are one each, over an exchange
// (package verbs/exchange) whose messages come in perftest's orders, so that
// ib_write_bw and the others can be the other end. Pair runs both in this
// process: on simulated devices in simulated time, where the same call gives the
// same figures to the last digit.
//
//	test       who posts          what counts
//	write_bw   client (-b: both)  bytes of completed messages over the time from first post to last completion
//	read_bw    client (-b: both)  the same
//	atomic_bw  client (-b: both)  the same, 8 bytes each
//	send_bw    client (-b: both)  the same; the server's figure is from first to last receive
//	write_lat  both in turn       half the time from post to post; each waits for the last byte to change
//	send_lat   both in turn       half the time from post to post; each waits for a receive
//	read_lat   client             the time from post to post, each after the completion before
//	atomic_lat client             the same
//
// Differences from perftest are listed in docs/perf.md.
package perf
