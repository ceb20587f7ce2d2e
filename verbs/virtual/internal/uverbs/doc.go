// Package uverbs is the ABI by which libibverbs and its mlx5 provider speak to the
// kernel over /dev/infiniband/uverbsN: commands that a program writes, and the
// responses that the kernel puts into the program's memory.
//
// Parse takes a written command apart and holds it to the lengths that the kernel
// checks (drivers/infiniband/core/uverbs_main.c); Request and Driver decode its
// parts; Message.Response lays out a response, cut to the room that the program left.
// Structures and numbers are those of <rdma/ib_user_verbs.h> (ABI version 6) and
// <rdma/mlx5-abi.h> (version 1); fields keep the headers' names. Every byte is in
// little-endian order unless a field says big-endian: the processors that libmlx5 runs
// on have no other.
//
// The package knows nothing of devices, objects or sockets, and no input panics.
package uverbs
