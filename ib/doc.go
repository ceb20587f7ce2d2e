// Package ib is the InfiniBand vocabulary that the verbs layer, the transport,
// the NIC model and the wire format share: opcodes, statuses, access flags, and
// the states and types of queue pairs. Names follow libibverbs and the
// InfiniBand Architecture specification, volume 1 (cited as IBA). It has no
// behaviour and imports nothing.
package ib
