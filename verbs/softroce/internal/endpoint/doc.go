// Package endpoint is a RoCEv2 device as a plain state machine: memory regions,
// completion queues, queue pairs and the packets between them. The caller passes
// the time and the packets that arrived, and fetches those to send. The package
// reads no clock, opens no socket and starts no goroutine. Package softroce drives
// it over sockets; its tests drive it over a wire of their own, in simulated time.
//
// The reliable connection itself is package roce/rc. Endpoint gives it bytes:
// it encodes and decodes headers, keeps the tables of keys and queue pairs,
// checks who may touch what, copies payload, and makes completions.
//
// An Endpoint belongs to one goroutine at a time; the caller locks. The one
// exception is a CQ, from which one goroutine may Poll while the owner of the
// Endpoint adds completions.
package endpoint
