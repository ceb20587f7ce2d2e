// Package mlx5 is the driver of a ConnectX's data path in Go: it posts requests to the
// rings of queue pairs and takes completions from those of completion queues, which libmlx5
// allocated and mlx5dv_init_obj shows. No call goes into C, and nothing is allocated. How
// rings, records and registers are found is the caller's part, and so is all control.
//
// The WQEs equal libmlx5's for the same requests, byte for byte.
//
// # Doorbells
//
// A store to a UAR page is one of 8 bytes, to write-combining memory. Such stores are
// ordered by no operation of sync/atomic: on amd64 they may linger in a buffer of the
// processor, on arm64 pass stores to other memory. So ring, in assembly, stores the doorbell record,
// orders that before the doorbell (SFENCE; DSB ST), stores the doorbell and flushes it
// (SFENCE; DSB ST). What was written to the ring before is ordered before the record by
// amd64 itself, and by DMB OSHST on arm64. CQEs are read after their owner bit in the same
// way: amd64 keeps the order of loads, arm64 needs DMB OSHLD. WQEs are never copied to the
// page (BlueFlame): queue pairs share its registers, and such copies would have to take turns.
//
// # Concurrency
//
// One goroutine at a time may post sends to a queue pair, one may post receives, and one may
// poll a CQ. They may be different ones. Reset and Close of a queue pair may come while others
// poll its CQs. A CQ's lock is taken by a Poll that finds something; an SRQ's, which comes after
// it, by each post and completion.
package mlx5
