// Package icm is the memory on the chip for what a NIC keeps in host memory and needs for its work: contexts, keys, pages' entries and
// elements of send queues (the drivers' interconnect context memory).
package icm
