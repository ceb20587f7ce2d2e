// Package connectx is the formats of a ConnectX's data path: send and receive requests
// (WQEs), completions (CQEs), doorbell records and doorbells, for the emulated device
// (verbs/virtual) and for the driver in Go (verbs/ibverbs). They are those of rdma-core's
// mlx5dv.h. All fields are big-endian.
package connectx
