// Package mlx5 is the data path of a ConnectX as its driver sees it: send requests
// (WQEs) that a program writes to rings in its own memory, doorbells, and completions
// (CQEs) that the device writes back. An [Engine] carries the requests out on queue pairs
// of a verbs device, the back end.
//
// Formats are those of rdma-core's mlx5dv.h, as libmlx5 of rdma-core 44 uses them with
// CQE version 1. All fields are big-endian. Multi-packet WQEs, signatures, memory
// windows, UMR and striding receive queues are not offered: a WQE that needs one ends in a
// completion with LOCAL_QP_OP_ERR, and its queue pair in error.
//
// # Order of events
//
// A program rings a doorbell by a store to a UAR page, which the program and the device
// share. Stores of several queues overwrite each other, so the store only says that there
// is something: which queues have new requests, and which completion queues are armed,
// their doorbell records say, in the program's memory. [Engine.Scan] looks at the pages,
// reads the records and requests, posts them to the back end, polls the back end's
// completion queues and writes CQEs.
//
// Receives ring no doorbell. A back end asks for them when a message needs one
// (verbs.RecvSource), as a NIC fetches receive WQEs.
//
// # Concurrency
//
// An Engine serves one opened device of one process. All its methods and those of its
// objects may be called by any goroutine; a lock of the Engine keeps them apart. The back
// end's objects that were handed over belong to the Engine until Close: nobody else may
// poll the completion queues, or modify or post to the queue pairs. The callbacks of the
// configurations run with the lock held: they must be quick, and not call the Engine.
// The locks' order is Engine, back end, receive queue.
package mlx5
